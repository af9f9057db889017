module @jit_func {
  func.func public @main(%arg0: tensor<9xf64>) -> (tensor<5xf64> ) {
    %cst = stablehlo.constant dense<(1.000000e+00,0.000000e+00)> : tensor<complex<f64>>
    %0 = call @fft(%arg0) : (tensor<9xf64>) -> tensor<5xcomplex<f64>>
    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<complex<f64>>) -> tensor<5xcomplex<f64>>
    %2 = stablehlo.multiply %0, %1 : tensor<5xcomplex<f64>>
    %3 = stablehlo.abs %2 : (tensor<5xcomplex<f64>>) -> tensor<5xf64>
    return %3 : tensor<5xf64>
  }
  func.func private @fft(%arg0: tensor<9xf64>) -> tensor<5xcomplex<f64>> {
    %0 = stablehlo.fft %arg0, type = RFFT, length = [9] : (tensor<9xf64>) -> tensor<5xcomplex<f64>>
    return %0 : tensor<5xcomplex<f64>>
  }
}
