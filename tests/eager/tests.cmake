# operator new is replaced, so it is a program of its own.
tidu_add_test_program(test_eager_allocation SOURCES eager/allocation/throw_allocation.cpp c/faults/allocations.cpp)
add_test(NAME test_eager_allocation COMMAND test_eager_allocation)
