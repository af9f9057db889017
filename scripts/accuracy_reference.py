#!/usr/bin/env python3
"""Writes tests/data/accuracy/NAME.txt: for points over the whole range of each dtype the value and the first and second derivatives
of a function of one or two numbers, by mpmath (PyPI, 1.4 or later) with 60 digits. tests/accuracy reads them, and its results make docs/accuracy.md.

A line is `DTYPE x [y] ; value first... second...`; for two numbers the first derivatives are by x and y, the second by xx, xy, yy. A
complex number is its two parts; each derivative is its two parts and the size in whose units its error counts. A number is rounded to
some digits more than the dtype has, or is inf, -inf, nan; a number below 1e-360 is 0. `a|u` means: the error of a counts in units of the
last place of u = |a| + |x a'(x)|, the condition of a: used if terms of a cancel near a zero of its own, or a grows by a power of e.
Points are numbers of the dtype.
usage: scripts/accuracy_reference.py [NAME...]"""
import math
import pathlib
import random
import sys

import mpmath as mp
from mpmath import mpf

if tuple(int(part) for part in mp.__version__.split(".")[:2]) < (1, 4):  # which loses tiny parts of complex numbers
    sys.exit(f"accuracy_reference.py: expected mpmath 1.4 or later, got {mp.__version__}")
mp.mp.dps = 60
FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests/data/accuracy"
INF = mp.inf

# p: digits of the significand; least: exponent of the least subnormal; most: exponent of the greatest power of two
DTYPES = {"f64": (53, -1074, 1023), "f32": (24, -149, 127), "f16": (11, -24, 15), "bf16": (8, -133, 127)}
COUNTS = {"f64": 40, "f32": 28, "f16": 20, "bf16": 14}
PARTS = {"c128": "f64", "c64": "f32"}
DIGITS = {"f64": 20, "f32": 13, "f16": 10, "bf16": 9}


def rounded(x, dtype):
    """The number of the dtype that is nearest to x, as mpf; the greatest number for an x that is too great."""
    p, least, most = DTYPES[dtype]
    x = mpf(x)
    if x == 0 or not mp.isfinite(x):
        return x
    exponent = max(int(mp.floor(mp.log(abs(x), 2))) - p + 1, least)
    unit = mpf(2) ** exponent
    result = mp.nint(x / unit) * unit
    greatest = (2 - mpf(2) ** (1 - p)) * mpf(2) ** most
    return max(-greatest, min(greatest, result))


def ends(dtype):
    """The least subnormal, the least normal and the greatest number."""
    p, least, most = DTYPES[dtype]
    return mpf(2) ** least, mpf(2) ** (least + p - 1), (2 - mpf(2) ** (1 - p)) * mpf(2) ** most


def text(x, digits=20):
    if mp.isnan(x):
        return "nan"
    if abs(x) > mpf(10) ** 330:
        return "inf" if x > 0 else "-inf"
    if abs(x) < mpf(10) ** -360:
        return "0"
    return mp.nstr(x, digits, strip_zeros=True, min_fixed=-2, max_fixed=5)


class Function:
    """derivatives[n](x) is the n-th derivative. low, high: the open domain. near: points that are singular, or where the function or a
    derivative is 0. cancels: the orders whose value is a sum of terms that cancel elsewhere. most: the greatest |x|. extra: further
    points. poles: integers up to 0 are poles."""

    def __init__(self, f, d1, d2, low=-INF, high=INF, near=(0,), cancels=(), most=INF, dtypes=tuple(DTYPES), extra=(), poles=False):
        self.derivatives, self.poles = (f, d1, d2), poles
        self.low, self.high, self.near, self.cancels, self.most, self.extra = low, high, near, cancels, most, extra
        self.dtypes = dtypes

    def points(self, dtype, chance):
        p, least, most = DTYPES[dtype]
        found = set()

        def add(x):
            x = rounded(x, dtype)
            at_pole = self.poles and x <= 0 and x == mp.floor(x)
            if self.low < x < self.high and abs(x) <= self.most and not at_pole:
                found.add(x)

        n = COUNTS[dtype]
        for i in range(n):  # log-uniform to both ends
            size = mpf(2) ** (least + (most + 1 - least) * mpf(chance.random()))
            add(size if chance.random() < 0.5 else -size)
            if self.low >= 0:
                add(size)
        for i in range(n // 2):  # ordinary numbers
            add(chance.uniform(-4, 4))
            add(chance.uniform(-1, 1))
            add(chance.choice((-1, 1)) * math.exp(chance.uniform(0, 7)))
        for c in self.near:
            for i in range(n // 4):
                add(c + chance.choice((-1, 1)) * mpf(2) ** -chance.uniform(1, p + 2) * max(1, abs(c)))
            if c != 0:
                for side in (-1, 1):
                    add(c + side * mpf(2) ** (1 - p) * abs(c))
        for x in self.extra:
            add(x)
        for x in ends(dtype):
            add(x)
            add(-x)
        return sorted(found)

    def line(self, dtype, x):
        numbers = []
        for order, f in enumerate(self.derivatives):
            value = f(x)
            entry = text(value, DIGITS[dtype])
            if order in self.cancels and mp.isfinite(value):
                following = self.derivatives[order + 1] if order < 2 else lambda t: mp.diff(self.derivatives[2], t, relative=True, h=mpf(10) ** -25)
                entry += "|" + text(abs(value) + abs(x * following(x)), 6)
            numbers.append(entry)
        return f"{dtype} {text(x)} ; {' '.join(numbers)}"


class Binary:
    """f(x, y) with its derivatives by x, y, xx, xy, yy."""

    def __init__(self, *derivatives, points, dtypes=tuple(DTYPES), cancels=False):
        self.derivatives, self.make_points, self.dtypes, self.cancels = derivatives, points, dtypes, cancels

    def points(self, dtype, chance):
        return sorted({(rounded(x, dtype), rounded(y, dtype)) for x, y in self.make_points(dtype, chance)})

    def line(self, dtype, pair):
        x, y = pair
        numbers = []
        for f in self.derivatives:
            value = f(x, y)
            entry = text(value, DIGITS[dtype])
            if self.cancels and mp.isfinite(value):
                step = {"relative": True, "h": mpf(10) ** -20}
                by_x, by_y = mp.diff(lambda t: f(t, y), x, **step), mp.diff(lambda t: f(x, t), y, **step)
                entry += "|" + text(abs(value) + abs(x * by_x) + abs(y * by_y), 6)
            numbers.append(entry)
        return f"{dtype} {text(x)} {text(y)} ; {' '.join(numbers)}"


def anywhere(dtype, chance):
    """Pairs of any size; of one size; ordinary ones; some 0."""
    p, least, most = DTYPES[dtype]
    pairs = []

    def size():
        return chance.choice((-1, 1)) * mpf(2) ** (least + (most + 1 - least) * mpf(chance.random()))

    for i in range(COUNTS[dtype]):
        pairs.append((size(), size()))
        x = size()
        pairs.append((x, x * chance.uniform(-3, 3)))
        pairs.append((chance.uniform(-5, 5), chance.uniform(-5, 5)))
    for i in range(6):
        pairs += [(0, size()), (size(), 0)]
    for x in ends(dtype):
        pairs += [(x, y * sign) for y in (1, *ends(dtype)) if y != x for sign in (1, -1)] + [(1, x)]
    return [(x, y) for x, y in pairs if rounded(x, dtype) != 0 or rounded(y, dtype) != 0]


def positive_base(dtype, chance):
    """x > 0, and y so that x^y and its derivatives are mostly in range."""
    p, least, most = DTYPES[dtype]
    pairs = []
    for i in range(2 * COUNTS[dtype]):
        x = mpf(2) ** chance.uniform(least, most)
        pairs.append((x, chance.uniform(0.5 * least, 0.5 * most) / max(1, abs(mp.log(x, 2)))))
        pairs.append((chance.uniform(0.01, 4), chance.uniform(-6, 6)))
        pairs.append((1 + chance.choice((-1, 1)) * mpf(2) ** -chance.uniform(1, p - 1), chance.uniform(-20, 20)))
    return [(x, y) for x, y in pairs if rounded(x, dtype) > 0]


def ordinary(dtype, chance):
    return [(chance.uniform(-30, 30), chance.uniform(-30, 30)) for i in range(2 * COUNTS[dtype])] + [
        (x, x + chance.uniform(-1, 1) * 2.0 ** -chance.uniform(0, 20)) for x in (chance.uniform(-9, 9) for i in range(COUNTS[dtype]))]


class Holomorphic:
    """derivatives[n](z) is the n-th derivative of a function of a complex number, away from its branch cuts. near: points that are
    singular, or where the function or a derivative is 0. most, widest: the greatest |Re z| and |Im z|."""

    dtypes = ("c128", "c64")

    def __init__(self, f, d1, d2, near=(0,), most=INF, widest=INF, cancels=()):
        self.derivatives, self.near, self.most, self.widest, self.cancels = (f, d1, d2), near, most, widest, cancels

    def points(self, dtype, chance):
        part = PARTS[dtype]
        p, least, most = DTYPES[part]
        found = set()

        def add(x, y):
            x, y = rounded(x, part), rounded(y, part)
            if x != 0 and y != 0 and abs(x) <= self.most and abs(y) <= self.widest:
                found.add((x, y))

        def sign():
            return chance.choice((-1, 1))

        def size():
            return sign() * mpf(2) ** (least + (most - least) * mpf(chance.random()))

        n = COUNTS[part]
        for i in range(n):  # log-uniform to both ends: each part for itself, and both of one size
            add(size(), size())
            add(chance.uniform(-4, 4), chance.uniform(-4, 4))
            add(sign() * math.exp(chance.uniform(0, 6.6)), sign() * math.exp(chance.uniform(0, 6.6)))
            add(size(), chance.uniform(-3, 3))
            add(chance.uniform(-3, 3), size())
            x = size()
            add(x, x * chance.uniform(-2, 2))
        for c in self.near:
            c = mp.mpc(c)
            for i in range(n // 2):
                at = c + mpf(2) ** -chance.uniform(1, p + 2) * mp.expjpi(chance.uniform(-1, 1))
                add(at.real, at.imag)
            for i in range(n // 4):  # close by in one part alone
                add(c.real + sign() * mpf(2) ** -chance.uniform(1, p), c.imag + sign() * mpf(2) ** -chance.uniform(p, 4 * p))
                add(c.real + sign() * mpf(2) ** -chance.uniform(p, 4 * p), c.imag + sign() * mpf(2) ** -chance.uniform(1, p))
        for end in ends(part):  # one of the parts, and both
            for x, y in ((end, 1), (-end, 1), (1, end), (-1, -end), (end, end), (-end, end)):
                add(x, y)
        return sorted(found)

    def line(self, dtype, pair):
        with mp.workdps(150):  # next to a branch point most digits of a part cancel
            z, numbers = mp.mpc(*pair), []
            for order, f in enumerate(self.derivatives):
                value = mp.mpc(f(z))
                unit = abs(value)
                if order in self.cancels and mp.isfinite(value):
                    following = self.derivatives[order + 1] if order < 2 else lambda t: mp.diff(self.derivatives[2], t, relative=True, h=mpf(10) ** -25)
                    unit += abs(z * following(z))
                numbers.append(complex_entry(value, unit, dtype))
            return f"{dtype} {text(pair[0])} {text(pair[1])} ; {' '.join(numbers)}"


def complex_entry(value, unit, dtype):
    digits = DIGITS[PARTS[dtype]]
    return f"{text(value.real, digits)} {text(value.imag, digits)} {text(unit, 6)}"


class HolomorphicBinary(Binary):
    """f(z, w) of two complex numbers with its derivatives by z, w, zz, zw, ww."""

    def __init__(self, *derivatives, points, cancels=False):
        super().__init__(*derivatives, points=points, dtypes=Holomorphic.dtypes, cancels=cancels)

    def points(self, dtype, chance):
        part = PARTS[dtype]
        pairs = {tuple(rounded(x, part) for number in pair for x in (number.real, number.imag)) for pair in self.make_points(part, chance)}
        return sorted(parts for parts in pairs if all(parts))

    def line(self, dtype, parts):
        with mp.workdps(150):
            z, w, numbers = mp.mpc(*parts[:2]), mp.mpc(*parts[2:]), []
            for f in self.derivatives:
                value = mp.mpc(f(z, w))
                unit = abs(value)
                if self.cancels and mp.isfinite(value):
                    step = {"relative": True, "h": mpf(10) ** -40}
                    unit += abs(z * mp.diff(lambda t: f(t, w), z, **step)) + abs(w * mp.diff(lambda t: f(z, t), w, **step))
                numbers.append(complex_entry(value, unit, dtype))
            return f"{dtype} {' '.join(text(x) for x in parts)} ; {' '.join(numbers)}"


def complex_anywhere(part, chance):
    """Pairs whose four parts have any size; of one size; ordinary ones."""
    p, least, most = DTYPES[part]
    pairs = []

    def size():
        return chance.choice((-1, 1)) * mpf(2) ** (least + (most + 1 - least) * mpf(chance.random()))

    def turn():
        return mp.mpc(chance.uniform(-2, 2), chance.uniform(-2, 2))

    for i in range(COUNTS[part]):
        pairs.append((mp.mpc(size(), size()), mp.mpc(size(), size())))
        x = size()
        pairs.append((x * turn(), x * turn()))
        pairs.append((size() * turn(), size() * turn()))
        pairs.append((turn(), turn()))
    for x in ends(part):
        for y in (1, *ends(part)):
            pairs += [(x * one, y * other) for one in (mp.mpc(1, 1), mp.mpc(1, -1)) for other in (mp.mpc(1, 1), mp.mpc(-1, 1))]
        pairs.append((mp.mpc(1, -1), x * mp.mpc(1, 1)))
    return pairs


def complex_powers(part, chance):
    """z of any size, and w so that z^w and its derivatives are mostly in range; ordinary pairs; z next to 1."""
    p, least, most = DTYPES[part]
    pairs = []

    def turn():
        return mp.expjpi(chance.uniform(-1, 1))

    for i in range(COUNTS[part]):
        z = mpf(2) ** chance.uniform(least, most) * turn()
        pairs.append((z, chance.uniform(0.1, 0.5) * most / max(1, abs(mp.log(z, 2))) * turn()))
        pairs.append((chance.uniform(0.01, 4) * turn(), chance.uniform(0.01, 6) * turn()))
        pairs.append((1 + mpf(2) ** -chance.uniform(1, p - 1) * turn(), chance.uniform(0.1, 20) * turn()))
        pairs.append((chance.uniform(0.01, 4) * turn(), mpf(2) ** chance.uniform(least, 0) * turn()))
    return pairs


def sech2(x):
    return 1 / mp.cosh(x) ** 2


def sigma(x):
    return 1 / (1 + mp.exp(-x))


def sigma1(x):
    return sigma(x) * sigma(-x)


def sigma2(x):
    return -sigma1(x) * mp.tanh(x / 2)


def phi(x):  # the normal density
    return mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)


def Phi(x):
    return mp.erfc(-x / mp.sqrt(2)) / 2


def gaussian(x):
    return 2 / mp.sqrt(mp.pi) * mp.exp(-x * x)


LN2, LN10 = mp.log(2), mp.log(10)
A = mp.sqrt(2 / mp.pi)


def u_of(x):
    return A * (x + mpf("0.044715") * x**3)


def u1_of(x):
    return A * (1 + 3 * mpf("0.044715") * x**2)


def u2_of(x):
    return A * 6 * mpf("0.044715") * x


def elu(alpha, scale=1):
    return (lambda x: scale * (x if x > 0 else alpha * mp.expm1(x)), lambda x: scale * (1 if x > 0 else alpha * mp.exp(x)),
            lambda x: scale * (0 if x > 0 else alpha * mp.exp(x)))


def inverse_of_erf(x):
    if abs(x) < mpf(10) ** -30:
        return x * mp.sqrt(mp.pi) / 2
    return mp.erfinv(x)


SELU_ALPHA, SELU_SCALE = mpf("1.6732632423543772848170429916717"), mpf("1.0507009873554804934193349852946")
GAMMA_NEAR = (0, 1, 2, -1, -2, mpf("1.461632144968362341262659542325721328468"))

FUNCTIONS = {
    "exp": Function(mp.exp, mp.exp, mp.exp, extra=(-745.1, -708, 709.7, -103.9, -87, 88.7, 11, -17)),
    "exp2": Function(lambda x: mpf(2) ** x, lambda x: LN2 * mpf(2) ** x, lambda x: LN2**2 * mpf(2) ** x, most=mpf(10) ** 9,
                     extra=(-1073.5, 1023.9, -148.5, 127.9, 15.9, -23.5)),
    "expm1": Function(mp.expm1, mp.exp, mp.exp, extra=(-40, -600, 709, -17, -90, 88)),
    "log": Function(mp.log, lambda x: 1 / x, lambda x: -1 / x**2, low=0, near=(1,)),
    "log2": Function(lambda x: mp.log(x) / LN2, lambda x: 1 / x / LN2, lambda x: -1 / x**2 / LN2, low=0, near=(1,)),
    "log10": Function(lambda x: mp.log(x) / LN10, lambda x: 1 / x / LN10, lambda x: -1 / x**2 / LN10, low=0, near=(1,)),
    "log1p": Function(mp.log1p, lambda x: 1 / (1 + x), lambda x: -1 / (1 + x) ** 2, low=-1, near=(0, -1)),
    "sqrt": Function(mp.sqrt, lambda x: 1 / mp.sqrt(x) / 2, lambda x: -1 / (4 * x * mp.sqrt(x)), low=0, near=()),
    "rsqrt": Function(lambda x: 1 / mp.sqrt(x), lambda x: -1 / (2 * x * mp.sqrt(x)), lambda x: 3 / (4 * x**2 * mp.sqrt(x)), low=0, near=()),
    "cbrt": Function(lambda x: mp.sign(x) * mp.cbrt(abs(x)), lambda x: 1 / (3 * mp.cbrt(abs(x)) ** 2),
                     lambda x: -2 * mp.sign(x) / (9 * mp.cbrt(abs(x)) ** 5)),
    "reciprocal": Function(lambda x: 1 / x, lambda x: -1 / x**2, lambda x: 2 / x**3, near=()),
    "square": Function(lambda x: x * x, lambda x: 2 * x, lambda x: mpf(2)),
    "abs": Function(abs, mp.sign, lambda x: mpf(0), near=()),
    "sin": Function(mp.sin, mp.cos, lambda x: -mp.sin(x), most=1000),
    "cos": Function(mp.cos, lambda x: -mp.sin(x), lambda x: -mp.cos(x), most=1000),
    "tan": Function(mp.tan, lambda x: mp.sec(x) ** 2, lambda x: 2 * mp.tan(x) * mp.sec(x) ** 2, most=1000),
    "asin": Function(mp.asin, lambda x: 1 / mp.sqrt(1 - x * x), lambda x: x / mp.sqrt(1 - x * x) ** 3, low=-1, high=1, near=(0, -1, 1)),
    "acos": Function(mp.acos, lambda x: -1 / mp.sqrt(1 - x * x), lambda x: -x / mp.sqrt(1 - x * x) ** 3, low=-1, high=1, near=(0, -1, 1)),
    "atan": Function(mp.atan, lambda x: 1 / (1 + x * x), lambda x: -2 * x / (1 + x * x) ** 2),
    "sinh": Function(mp.sinh, mp.cosh, mp.sinh, extra=(709, -709, 88, 11)),
    "cosh": Function(mp.cosh, mp.sinh, mp.cosh, extra=(709, -709, 88, 11)),
    "tanh": Function(mp.tanh, sech2, lambda x: -2 * mp.tanh(x) * sech2(x), extra=(20, -30, 350, -360, 372, 45, -50, 8, -9, 709, 711, -1000)),
    "asinh": Function(mp.asinh, lambda x: 1 / mp.sqrt(1 + x * x), lambda x: -x / mp.sqrt(1 + x * x) ** 3),
    "acosh": Function(mp.acosh, lambda x: 1 / mp.sqrt(x - 1) / mp.sqrt(x + 1), lambda x: -x / (mp.sqrt(x - 1) * mp.sqrt(x + 1)) ** 3, low=1, near=(1,)),
    "atanh": Function(mp.atanh, lambda x: 1 / ((1 - x) * (1 + x)), lambda x: 2 * x / ((1 - x) * (1 + x)) ** 2, low=-1, high=1, near=(0, -1, 1)),
    "logistic": Function(sigma, sigma1, sigma2, extra=(20, -30, 40, 700, -740, 744, 90, -100, 103, 12, -16)),
    "softplus": Function(lambda x: mp.log1p(mp.exp(x)) if x < 0 else x + mp.log1p(mp.exp(-x)), sigma, sigma1, extra=(20, -30, 40, 700, -740, 744, 90, -100, 12)),
    "log_sigmoid": Function(lambda x: -mp.log1p(mp.exp(-x)) if x > 0 else x - mp.log1p(mp.exp(x)), lambda x: sigma(-x), lambda x: -sigma1(x),
                            extra=(20, -30, 40, 700, -740, 744, 90, -100, 12)),
    "silu": Function(lambda x: x * sigma(x), lambda x: sigma(x) + x * sigma1(x), lambda x: 2 * sigma1(x) + x * sigma2(x), cancels=(1, 2),
                     extra=(20, -30, 40, 700, -740, 90, -100, 12)),
    "gelu": Function(lambda x: x * sigma(2 * u_of(x)), lambda x: sigma(2 * u_of(x)) + x * sigma1(2 * u_of(x)) * 2 * u1_of(x),
                     lambda x: 2 * sigma1(2 * u_of(x)) * 2 * u1_of(x) + x * (sigma2(2 * u_of(x)) * (2 * u1_of(x)) ** 2 + sigma1(2 * u_of(x)) * 2 * u2_of(x)),
                     cancels=(0, 1, 2), extra=(5, -5, 8, -8, 10, -10, 15, -15, -20, 20), most=mpf(10) ** 9),
    "gelu_exact": Function(lambda x: x * Phi(x), lambda x: Phi(x) + x * phi(x), lambda x: (2 - x * x) * phi(x), cancels=(0, 1, 2),
                           extra=(5, -5, 8, -8, 10, -10, 15, -15, -30, 30, -37), most=mpf(10) ** 9),
    "relu": Function(lambda x: max(x, mpf(0)), lambda x: mpf(1 if x > 0 else 0), lambda x: mpf(0), near=()),
    "elu": Function(*elu(1), extra=(-20, -40, -700, -90)),
    "selu": Function(*elu(SELU_ALPHA, SELU_SCALE), extra=(-20, -40, -700, -90)),
    "erf": Function(mp.erf, gaussian, lambda x: -2 * x * gaussian(x), extra=(5, -6, 26, -26.5, 9, 3.9)),
    "erfc": Function(mp.erfc, lambda x: -gaussian(x), lambda x: 2 * x * gaussian(x), extra=(5, -6, 26, 26.5, 9, 3.9, 10), most=mpf(10) ** 9),
    "erf_inv": Function(inverse_of_erf, lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(inverse_of_erf(x) ** 2),
                        lambda x: mp.pi / 2 * inverse_of_erf(x) * mp.exp(2 * inverse_of_erf(x) ** 2), low=-1, high=1, near=(0, -1, 1)),
    "lgamma": Function(lambda x: mp.log(abs(mp.gamma(x))) if abs(x) < 1000 else mp.loggamma(abs(x)).real, lambda x: mp.digamma(x), lambda x: mp.polygamma(1, x), near=GAMMA_NEAR,
                       cancels=(0, 1), low=-30, most=mpf(10) ** 300, poles=True),
    "digamma": Function(mp.digamma, lambda x: mp.polygamma(1, x), lambda x: mp.polygamma(2, x), near=GAMMA_NEAR, cancels=(0, 2), low=-30, poles=True),
    "power_3": Function(lambda x: x**3, lambda x: 3 * x**2, lambda x: 6 * x),
    "power_-2": Function(lambda x: x**-2, lambda x: -2 / x**3, lambda x: 6 / x**4, near=()),
    "power_2.5": Function(lambda x: x ** mpf(2.5), lambda x: mpf(2.5) * x ** mpf(1.5), lambda x: mpf(3.75) * mp.sqrt(x), low=0, near=()),
}


def squares(x, y):
    return x * x + y * y


def r(x, y):
    return mp.sqrt(squares(x, y))


BINARIES = {
    "atan2": Binary(lambda y, x: mp.atan2(y, x), lambda y, x: x / squares(x, y), lambda y, x: -y / squares(x, y), lambda y, x: -2 * x * y / squares(x, y) ** 2,
                    lambda y, x: (y * y - x * x) / squares(x, y) ** 2, lambda y, x: 2 * x * y / squares(x, y) ** 2, points=anywhere, cancels=True),
    "hypot": Binary(r, lambda x, y: x / r(x, y), lambda x, y: y / r(x, y), lambda x, y: y * y / r(x, y) ** 3, lambda x, y: -x * y / r(x, y) ** 3,
                    lambda x, y: x * x / r(x, y) ** 3, points=anywhere),
    "logaddexp": Binary(lambda x, y: max(x, y) + mp.log1p(mp.exp(-abs(x - y))), lambda x, y: sigma(x - y), lambda x, y: sigma(y - x), lambda x, y: sigma1(x - y),
                        lambda x, y: -sigma1(x - y), lambda x, y: sigma1(x - y), points=ordinary, cancels=True),
    "divide": Binary(lambda x, y: x / y, lambda x, y: 1 / y, lambda x, y: -x / y**2, lambda x, y: mpf(0), lambda x, y: -1 / y**2, lambda x, y: 2 * x / y**3,
                     points=lambda dtype, chance: [(x, y) for x, y in anywhere(dtype, chance) if rounded(y, dtype) != 0]),
    "pow": Binary(lambda x, y: x**y, lambda x, y: y * x ** (y - 1), lambda x, y: x**y * mp.log(x), lambda x, y: y * (y - 1) * x ** (y - 2),
                  lambda x, y: x ** (y - 1) * (1 + y * mp.log(x)), lambda x, y: x**y * mp.log(x) ** 2, points=positive_base, cancels=True),
}


def sqrt1m(z):  # the square root of 1 - z^2, on the side that asin, acos and their derivatives take
    return mp.sqrt(1 - z) * mp.sqrt(1 + z)


def atanh_of(z):  # mpmath's loses small numbers
    return z + z**3 / 3 if abs(z) < mpf(10) ** -60 else mp.atanh(z)


def sqrt1p(z):
    return mp.sqrt(1 - 1j * z) * mp.sqrt(1 + 1j * z)


def power(z, w):
    return mp.exp(w * mp.log(z))


I = mp.mpc(0, 1)
COMPLEX = {
    "exp": Holomorphic(mp.exp, mp.exp, mp.exp, widest=1000),
    "exp2": Holomorphic(lambda z: mp.exp(LN2 * z), lambda z: LN2 * mp.exp(LN2 * z), lambda z: LN2**2 * mp.exp(LN2 * z), widest=1000),
    "expm1": Holomorphic(mp.expm1, mp.exp, mp.exp, near=(0,), widest=1000),
    "log": Holomorphic(mp.log, lambda z: 1 / z, lambda z: -1 / z**2, near=(0, 1, -1, I, -I)),
    "log1p": Holomorphic(mp.log1p, lambda z: 1 / (1 + z), lambda z: -1 / (1 + z) ** 2, near=(0, -1, -2)),
    "sqrt": Holomorphic(mp.sqrt, lambda z: 1 / mp.sqrt(z) / 2, lambda z: -1 / (4 * z * mp.sqrt(z)), near=(0, -1, 1)),
    "rsqrt": Holomorphic(lambda z: 1 / mp.sqrt(z), lambda z: -1 / (2 * z * mp.sqrt(z)), lambda z: 3 / (4 * z**2 * mp.sqrt(z)), near=(0, -1, 1)),
    "reciprocal": Holomorphic(lambda z: 1 / z, lambda z: -1 / z**2, lambda z: 2 / z**3),
    "square": Holomorphic(lambda z: z * z, lambda z: 2 * z, lambda z: mpf(2)),
    "power_3": Holomorphic(lambda z: z**3, lambda z: 3 * z**2, lambda z: 6 * z),
    "sin": Holomorphic(mp.sin, mp.cos, lambda z: -mp.sin(z), near=(0, mp.pi), most=1000),
    "cos": Holomorphic(mp.cos, lambda z: -mp.sin(z), lambda z: -mp.cos(z), near=(0, mp.pi / 2), most=1000),
    "tan": Holomorphic(mp.tan, lambda z: mp.sec(z) ** 2, lambda z: 2 * mp.tan(z) * mp.sec(z) ** 2, near=(0, mp.pi / 2), most=1000),
    "sinh": Holomorphic(mp.sinh, mp.cosh, mp.sinh, widest=1000),
    "cosh": Holomorphic(mp.cosh, mp.sinh, mp.cosh, near=(0, I * mp.pi / 2), widest=1000),
    "tanh": Holomorphic(mp.tanh, sech2, lambda z: -2 * mp.tanh(z) * sech2(z), near=(0, I * mp.pi / 2), widest=1000),
    "asin": Holomorphic(mp.asin, lambda z: 1 / sqrt1m(z), lambda z: z / sqrt1m(z) ** 3, near=(0, -1, 1)),
    "acos": Holomorphic(mp.acos, lambda z: -1 / sqrt1m(z), lambda z: -z / sqrt1m(z) ** 3, near=(0, -1, 1)),
    "atan": Holomorphic(lambda z: -I * atanh_of(I * z), lambda z: 1 / ((1 - I * z) * (1 + I * z)), lambda z: -2 * z / ((1 - I * z) * (1 + I * z)) ** 2, near=(0, I, -I)),
    "asinh": Holomorphic(mp.asinh, lambda z: 1 / sqrt1p(z), lambda z: -z / sqrt1p(z) ** 3, near=(0, I, -I)),
    "acosh": Holomorphic(mp.acosh, lambda z: 1 / mp.sqrt(z - 1) / mp.sqrt(z + 1), lambda z: -z / (mp.sqrt(z - 1) * mp.sqrt(z + 1)) ** 3, near=(0, 1, -1)),
    "atanh": Holomorphic(atanh_of, lambda z: 1 / ((1 - z) * (1 + z)), lambda z: 2 * z / ((1 - z) * (1 + z)) ** 2, near=(0, 1, -1)),
    "logistic": Holomorphic(sigma, sigma1, sigma2, near=(0, I * mp.pi), widest=1000),
    "divide": HolomorphicBinary(lambda z, w: z / w, lambda z, w: 1 / w, lambda z, w: -z / w**2, lambda z, w: mpf(0), lambda z, w: -1 / w**2,
                                lambda z, w: 2 * z / w**3, points=complex_anywhere),
    "pow": HolomorphicBinary(power, lambda z, w: w * power(z, w - 1), lambda z, w: power(z, w) * mp.log(z), lambda z, w: w * (w - 1) * power(z, w - 2),
                             lambda z, w: power(z, w - 1) * (1 + w * mp.log(z)), lambda z, w: power(z, w) * mp.log(z) ** 2, points=complex_powers,
                             cancels=True),
}


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    everything = {**FUNCTIONS, **BINARIES, **{f"complex_{name}": function for name, function in COMPLEX.items()}}
    for name in sys.argv[1:] or everything:
        function, chance = everything[name], random.Random(name)
        lines = [function.line(dtype, x) for dtype in function.dtypes for x in function.points(dtype, chance)]
        (FOLDER / f"{name}.txt").write_text("\n".join(lines) + "\n")
        print(name, len(lines))


if __name__ == "__main__":
    main()
