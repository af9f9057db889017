module @IrToHlo.11 attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false} {
  func.func @main(%arg0: tensor<3x3xf64>) -> tensor<3xf64> {
    %0 = stablehlo.transpose %arg0, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f64[3,3]{0,1}"} : (tensor<3x3xf64>) -> tensor<3x3xf64>
    %1 = stablehlo.add %arg0, %0 : tensor<3x3xf64>
    %2 = stablehlo.custom_call @Eigh(%1) {backend_config = "1,1,100,0.000001", xla_shape = "(f64[3,3]{1,0}, f64[3]{0})"} : (tensor<3x3xf64>) -> tuple<tensor<3x3xf64>, tensor<3xf64>>
    %3 = stablehlo.get_tuple_element %2[1] : (tuple<tensor<3x3xf64>, tensor<3xf64>>) -> tensor<3xf64>
    return %3 : tensor<3xf64>
  }
}
