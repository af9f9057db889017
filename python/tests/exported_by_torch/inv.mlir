module @IrToHlo.52 attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false} {
  func.func @main(%arg0: tensor<3x3xf64>) -> tensor<3x3xf64> {
    %cst = stablehlo.constant dense<3.000000e+00> : tensor<3x3xf64>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<3x3xf64>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<3x3xf64>
    %c = stablehlo.constant dense<-1> : tensor<3xi32>
    %c_2 = stablehlo.constant dense<[0, 1, 2]> : tensor<3xi64>
    %0 = stablehlo.iota dim = 0 : tensor<3xi32>
    %1 = stablehlo.add %0, %c : tensor<3xi32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<3xi32>) -> tensor<3x3xi32>
    %3 = stablehlo.broadcast_in_dim %0, dims = [1] : (tensor<3xi32>) -> tensor<3x3xi32>
    %4 = stablehlo.compare GE, %2, %3 : (tensor<3x3xi32>, tensor<3x3xi32>) -> tensor<3x3xi1>
    %5 = stablehlo.broadcast_in_dim %c_2, dims = [0] : (tensor<3xi64>) -> tensor<3x3xi64>
    %6 = stablehlo.broadcast_in_dim %c_2, dims = [1] : (tensor<3xi64>) -> tensor<3x3xi64>
    %7 = stablehlo.compare EQ, %5, %6 : (tensor<3x3xi64>, tensor<3x3xi64>) -> tensor<3x3xi1>
    %8 = stablehlo.select %7, %cst_0, %cst_1 : tensor<3x3xi1>, tensor<3x3xf64>
    %9 = stablehlo.multiply %8, %cst : tensor<3x3xf64>
    %10 = stablehlo.add %arg0, %9 : tensor<3x3xf64>
    %11 = stablehlo.custom_call @Qr(%10) {backend_config = "", xla_shape = "(f64[3,3]{1,0}, f64[3]{0})"} : (tensor<3x3xf64>) -> tuple<tensor<3x3xf64>, tensor<3xf64>>
    %12 = stablehlo.get_tuple_element %11[0] : (tuple<tensor<3x3xf64>, tensor<3xf64>>) -> tensor<3x3xf64>
    %13 = stablehlo.select %4, %cst_1, %12 : tensor<3x3xi1>, tensor<3x3xf64>
    %14 = stablehlo.get_tuple_element %11[1] : (tuple<tensor<3x3xf64>, tensor<3xf64>>) -> tensor<3xf64>
    %15 = stablehlo.custom_call @ProductOfElementaryHouseholderReflectors(%12, %14) {backend_config = ""} : (tensor<3x3xf64>, tensor<3xf64>) -> tensor<3x3xf64>
    %16 = stablehlo.transpose %15, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f64[3,3]{0,1}"} : (tensor<3x3xf64>) -> tensor<3x3xf64>
    %17 = "stablehlo.triangular_solve"(%13, %16) <{left_side = true, lower = false, transpose_a = #stablehlo<transpose NO_TRANSPOSE>, unit_diagonal = false}> {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f64[3,3]{0,1}"} : (tensor<3x3xf64>, tensor<3x3xf64>) -> tensor<3x3xf64>
    return %17 : tensor<3x3xf64>
  }
}
