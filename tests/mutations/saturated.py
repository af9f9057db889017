# saturated.py - faults of derivatives of softmax and of lengths where one element exceeds all others, for
# scripts/mutations.py.

SOFTMAX = "src/primitives/softmax.cpp"


def fault(tag, *what):
    mutation(tag, *what, programs=("test_frontend",))


fault("saturated", "the log of a sum that rounds to 1 is 0", SOFTMAX,
      "ops::full_like(of.sum, 1.5)", "ops::full_like(of.sum, -1.5)")
fault("saturated", "1 - p is computed", SOFTMAX,
      "return either(from_mean, spread_out(above));",
      "return either(from_mean, ops::select_n(dominates_, spread_out(above), from_mean));")
fault("saturated", "1 - p is computed in reverse mode", SOFTMAX,
      "return either(ct, spread_out(above)) - weighted;",
      "return ops::select_n(dominates_, either(ct, spread_out(above)) - weighted, ct - p_ * row);")
fault("saturated", "the share of the label is subtracted from 1 where it is small", SOFTMAX,
      "ops::gt(p_there, ops::full_like(dz, 0.5))", "ops::gt(p_there, ops::full_like(dz, -0.5))")
fault("saturated", "the share of the label is subtracted from 1 where it is large", SOFTMAX,
      "ops::select_n(dominates, above, ops::reduce_sum(of_others, axes))",
      "ops::select_n(dominates, above, above)")
fault("saturated", "no element of a cumlogsumexp dominates", "src/primitives/cumulative.cpp",
      "ops::lt(others, ops::full_like(others, 1.0))", "ops::lt(others, ops::full_like(others, -1.0))")

LENGTHS = "src/frontend/norms.cpp"
fault("lengths", "no element of a vector dominates", LENGTHS,
      "ops::full_like(weight, 0.75)", "ops::full_like(weight, 1.5)")
fault("lengths", "the mean of scaled numbers is that of the others", LENGTHS,
      "sum_of_squares(distances(scaled(parts, c, of.axes), of), of.axes)",
      "sum_of_squares(scaled(distances(parts, of), c, of.axes), of.axes)")
