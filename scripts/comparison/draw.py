"""Draws a program's operands: new inputs with random data, or existing values of the program, converted to the shape, dtype and range
that a step needs."""
import random

import numpy as np

import dumps

ODD = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -0.5, -2.0, 2.5, 3.0, 1e30, -1e30, 1e-30, 1e300, 2.0**31, 2.0**53])
BLOCKS = (17, 31, 32, 33, 47, 63, 64, 65, 96, 100, 127, 128, 129, 130)
LARGEST = 6000  # elements of such a shape
MAGNITUDE = {"any": 1.0, "wide": 4.0}


class Draw:
    """A random program that is being built. `chain` is how likely an operand is a value that is there rather than an input."""

    def __init__(self, seed, chain=0.0, dtypes=("f64",), rows=None):
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(self.random.getrandbits(64))
        self.b = dumps.Builder(f"seed_{seed}")
        self.data = {}  # of inputs: (dtype, array)
        self.pool = []  # values that steps may use again
        self.chain, self.dtypes, self.rows = chain, dtypes, rows
        self.depth = 0
        self.large = False  # is one axis of most shapes as long as kernels' blocks, or longer?
        self.empty = 0.05  # how likely an axis has no elements, where a step takes that
        self.whole = 0.0  # how likely a step is of integers that works with those too
        self.odd = 0.0  # how many of the numbers without a domain are not finite, zeros of either sign, huge or tiny

    # Choices ----------------------------------------------------------------------------------------------------------------------

    def chance(self, p):
        return self.random.random() < p

    def pick(self, *options):
        return self.random.choice(options)

    def integer(self, low, high):
        return self.random.randint(low, high)

    def dtype(self, *allowed):
        """One of the program's dtypes that is allowed; all floating and complex ones are when none is named."""
        usable = [d for d in self.dtypes if not allowed or d in allowed]
        return self.random.choice(usable or [d for d in ("f64",) if not allowed or d in allowed] or list(allowed))

    def floating(self):
        if self.whole and self.chance(self.whole):
            return self.pick("i32", "i32", "i64")
        return self.dtype(*dumps.FLOATS)

    def numeric(self):
        if self.whole:
            return self.floating()
        return self.dtype(*dumps.FLOATS, *dumps.COMPLEX)

    def shape(self, low=0, high=3, largest=5, empty=None):
        """A shape of `low` to `high` axes; often that of a value that is there."""
        empty = self.empty if empty is None else empty
        if self.rows and low <= 2 <= high and self.chance(0.9):
            return self.rows
        if self.pool and self.chance(self.chain):
            shapes = [self.b.shape(v) for v in self.pool if low <= len(self.b.shape(v)) <= high]
            shapes = [s for s in shapes if empty > 0 or 0 not in s]
            if shapes:
                return self.random.choice(shapes)
        made = [0 if self.chance(empty) else self.integer(1, largest) for _ in range(self.integer(low, high))]
        if self.large:
            for k in self.random.sample(range(len(made)), min(len(made), self.integer(1, 2))):
                longer = [*made[:k], self.pick(*BLOCKS, 257, 1000, 1025), *made[k + 1:]]
                made = longer if np.prod(longer) <= LARGEST else made
        return tuple(made)

    def extent(self, high):
        """1 to `high`, or where extents are large one of those."""
        return self.pick(*BLOCKS) if self.large and self.chance(0.7) else self.integer(1, high)

    def axes(self, rank, least=0):
        return sorted(self.random.sample(range(rank), self.integer(min(least, rank), rank)))

    # Data -------------------------------------------------------------------------------------------------------------------------

    def array(self, dtype, shape, domain="any", low=-6, high=6):
        n = self.numbers
        if dtype == "bool":
            return n.random(shape) < 0.5
        if dtype in dumps.INTEGERS:
            if self.whole and (low, high) == (-6, 6) and self.chance(0.4):  # of any length in bits
                bits = 64 if dtype == "i64" else 32
                long = n.integers(-(2**63), 2**63, shape, endpoint=False) >> n.integers(64 - bits, 64, shape)
                return np.asarray(long, dumps.CARRIER[dtype])
            return np.asarray(n.integers(low, high + 1, shape), dumps.CARRIER[dtype])
        x = n.standard_normal(shape) * MAGNITUDE.get(domain, 1.0)
        if dtype in dumps.COMPLEX:
            x = x + 1j * n.standard_normal(shape) * MAGNITUDE.get(domain, 1.0)
            if domain == "positive":
                x = x + 3
        elif domain == "positive":
            x = np.abs(x) + 0.3
        elif domain == "unit":
            x = np.tanh(x) * 0.9
        elif domain == "ties":
            x = np.round(x * 1.5) / 2
        odd = 0.5 if domain == "special" else self.odd if domain in ("any", "wide", "ties") else 0.0
        if odd and dtype in dumps.FLOATS:
            x = np.where(n.random(shape) < odd, ODD[n.integers(0, len(ODD), shape)], x)
        with np.errstate(over="ignore"):
            return dumps.as_carried(x, dtype)

    def input(self, dtype, shape, domain="any", **bounds):
        value = self.b.input(dtype, shape)
        self.data[self.b.values[value]["name"]] = (dtype, self.array(dtype, shape, domain, **bounds))
        return value

    # Operands ---------------------------------------------------------------------------------------------------------------------

    def operand(self, dtype, shape, domain="any", **bounds):
        """A value of the type, its numbers in the domain: "any", "wide", "positive", "unit" (-0.9 to 0.9), "ties", "special"."""
        usable = dumps.inexact(dtype) or (self.whole and dtype != "bool" and not bounds)
        if usable and self.pool and self.chance(self.chain):
            found = self.found(dtype, shape)
            if found is not None:
                return self.into(found, domain)
        if self.depth or self.chance(0.15 if self.chain else 0.05):
            return self.b.constant(dtype, self.array(dtype, shape, domain, **bounds))
        return self.input(dtype, shape, domain, **bounds)

    def found(self, dtype, shape):
        """A value that is there, in that type if it can be brought there."""
        same = [v for v in self.pool if self.b.type(v) == (dtype, shape)]
        near = [v for v in self.pool if (self.whole or dumps.inexact(self.b.dtype(v))) and v not in same]
        if same and (not near or self.chance(0.7)):
            return self.random.choice(same)
        for v in self.random.sample(near, min(4, len(near))):
            fitted = self.fitted(v, shape)
            if fitted is not None:
                return self.converted(fitted, dtype)
        return self.random.choice(same) if same else None

    def fitted(self, value, shape):
        """The value broadcast, reduced or reshaped to the shape; None where that says little."""
        b, mine = self.b, self.b.shape(value)
        if b.dtype(value) == "bool" and mine != shape:
            return None
        if mine == shape:
            return value
        if np.prod(mine) == np.prod(shape):
            return b("reshape", value, new_sizes=list(shape))
        if len(mine) < len(shape):  # the first way to read its axes as some of the shape's
            for start in range(len(shape) - len(mine) + 1):
                if shape[start:start + len(mine)] == mine:
                    axes = list(range(start, start + len(mine)))
                    return b("broadcast_in_dim", value, shape=list(shape), broadcast_dimensions=axes)
        if len(mine) == len(shape) and all(m >= n for m, n in zip(mine, shape)):
            return b("slice", value, start_indices=[0] * len(shape), limit_indices=list(shape), strides=[1] * len(shape))
        for axis in range(len(mine)):
            if mine[:axis] + mine[axis + 1:] == shape:
                return b("reduce_sum", value, axes=[axis])
        return None

    def converted(self, value, dtype):
        own = self.b.dtype(value)
        if own == dtype:
            return value
        if own in dumps.COMPLEX and dtype not in dumps.COMPLEX:
            value = self.b(self.pick("real", "imag"), value)
            own = dumps.PART[own]
        return value if own == dtype else self.b("convert_element_type", value, new_dtype=dtype)

    def into(self, value, domain):
        """The value mapped smoothly into the domain, and kept from growing."""
        b, (dtype, shape) = self.b, self.b.type(value)
        one = lambda x: b.full(dtype, shape, x)
        if dtype in dumps.INTEGERS:
            return value
        if dtype in dumps.COMPLEX:
            return b("add", b("sin", b("mul", value, one(0.3))), one(2.5)) if domain == "positive" else value
        if domain == "positive":
            return b("add", b("square", b("tanh", value)), one(0.5))
        if domain == "unit":
            return b("mul", b("tanh", value), one(0.8))
        if domain == "ties":
            return value if self.chance(0.5) else b("mul", value, one(2.0))
        return value

    def keep(self, *values):
        """Results that later steps may use, those of floating and complex dtypes often kept small."""
        for value in values:
            if dumps.inexact(self.b.dtype(value)) and self.chain and self.chance(0.5):
                value = self.b(self.pick("tanh", "sin", "tanh") if self.b.dtype(value) not in dumps.COMPLEX else "sin", value)
            self.pool.append(value)
