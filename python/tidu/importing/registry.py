"""Tables of functions by the name of the operation that they translate."""


def entering(table):
    """A decorator: `@decorator("a", "b")` enters a function into `table` under these names."""

    def names_of(*names):
        def enter(function):
            for name in names:
                table[name] = function
            return function

        return enter

    return names_of
