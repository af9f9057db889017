# The public header names MPI's types, so users of the target compile with MPI as well; find_package(tidu COMPONENTS mpi)
# looks for it, and find_package(tidu) alone does not.
target_link_libraries(${target} PUBLIC MPI::MPI_CXX)
