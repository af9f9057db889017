module @IrToHlo.194 attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false} {
  func.func @main(%arg0: tensor<4xf64>, %arg1: tensor<4xf64>, %arg2: tensor<4x6xf64>, %arg3: tensor<6xf64>, %arg4: tensor<6x4xf64>, %arg5: tensor<4xf64>, %arg6: tensor<4xf64>, %arg7: tensor<4x4xf64>, %arg8: tensor<12xf64>, %arg9: tensor<12x4xf64>, %arg10: tensor<1x3x4xf64>, %arg11: tensor<4xf64>, %arg12: tensor<4xf64>) -> tensor<1x3x4xf64> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<1x3x6xf64>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<3xf64>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<3xf64>
    %cst_2 = stablehlo.constant dense<0.8408964152537145> : tensor<1x2x2x3xf64>
    %cst_3 = stablehlo.constant dense<0.8408964152537145> : tensor<1x2x3x2xf64>
    %cst_4 = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %0 = stablehlo.reshape %arg10 : (tensor<1x3x4xf64>) -> tensor<3x4xf64>
    %1 = stablehlo.transpose %arg9, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f64[4,12]{0,1}"} : (tensor<12x4xf64>) -> tensor<4x12xf64>
    %2 = stablehlo.dot_general %0, %1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x4xf64>, tensor<4x12xf64>) -> tensor<3x12xf64>
    %3 = stablehlo.broadcast_in_dim %arg8, dims = [1] : (tensor<12xf64>) -> tensor<3x12xf64>
    %4 = stablehlo.add %2, %3 : tensor<3x12xf64>
    %5 = stablehlo.reshape %4 : (tensor<3x12xf64>) -> tensor<1x3x1x3x4xf64>
    %6 = stablehlo.transpose %5, dims = [3, 1, 2, 0, 4] {result_layout = dense<[4, 0, 2, 1, 3]> : tensor<5xindex>, xla_shape = "f64[3,3,1,1,4]{4,0,2,1,3}"} : (tensor<1x3x1x3x4xf64>) -> tensor<3x3x1x1x4xf64>
    %7 = stablehlo.reshape %6 : (tensor<3x3x1x1x4xf64>) -> tensor<3x3x1x4xf64>
    %8 = stablehlo.slice %7 [0:1, 0:3, 0:1, 0:4] : (tensor<3x3x1x4xf64>) -> tensor<1x3x1x4xf64>
    %9 = stablehlo.reshape %8 : (tensor<1x3x1x4xf64>) -> tensor<3x2x2xf64>
    %10 = stablehlo.transpose %9, dims = [1, 0, 2] {result_layout = dense<[2, 0, 1]> : tensor<3xindex>, xla_shape = "f64[2,3,2]{2,0,1}"} : (tensor<3x2x2xf64>) -> tensor<2x3x2xf64>
    %11 = stablehlo.reshape %10 : (tensor<2x3x2xf64>) -> tensor<1x2x3x2xf64>
    %12 = stablehlo.multiply %11, %cst_3 : tensor<1x2x3x2xf64>
    %13 = stablehlo.reshape %12 : (tensor<1x2x3x2xf64>) -> tensor<2x3x2xf64>
    %14 = stablehlo.slice %7 [1:2, 0:3, 0:1, 0:4] : (tensor<3x3x1x4xf64>) -> tensor<1x3x1x4xf64>
    %15 = stablehlo.reshape %14 : (tensor<1x3x1x4xf64>) -> tensor<3x2x2xf64>
    %16 = stablehlo.transpose %15, dims = [1, 0, 2] {result_layout = dense<[2, 0, 1]> : tensor<3xindex>, xla_shape = "f64[2,3,2]{2,0,1}"} : (tensor<3x2x2xf64>) -> tensor<2x3x2xf64>
    %17 = stablehlo.reshape %16 : (tensor<2x3x2xf64>) -> tensor<1x2x3x2xf64>
    %18 = stablehlo.transpose %17, dims = [0, 1, 3, 2] {result_layout = dense<[2, 3, 1, 0]> : tensor<4xindex>, xla_shape = "f64[1,2,2,3]{2,3,1,0}"} : (tensor<1x2x3x2xf64>) -> tensor<1x2x2x3xf64>
    %19 = stablehlo.multiply %18, %cst_2 : tensor<1x2x2x3xf64>
    %20 = stablehlo.reshape %19 : (tensor<1x2x2x3xf64>) -> tensor<2x2x3xf64>
    %21 = stablehlo.dot_general %13, %20, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x3x2xf64>, tensor<2x2x3xf64>) -> tensor<2x3x3xf64>
    %22 = stablehlo.reshape %21 : (tensor<2x3x3xf64>) -> tensor<1x2x3x3xf64>
    %23 = stablehlo.reduce(%22 init: %cst_4) applies stablehlo.maximum across dimensions = [3] : (tensor<1x2x3x3xf64>, tensor<f64>) -> tensor<1x2x3xf64>
    %24 = stablehlo.broadcast_in_dim %23, dims = [0, 1, 2] : (tensor<1x2x3xf64>) -> tensor<1x2x3x3xf64>
    %25 = stablehlo.subtract %22, %24 : tensor<1x2x3x3xf64>
    %26 = stablehlo.exponential %25 : tensor<1x2x3x3xf64>
    %27 = stablehlo.reduce(%26 init: %cst_5) applies stablehlo.add across dimensions = [3] : (tensor<1x2x3x3xf64>, tensor<f64>) -> tensor<1x2x3xf64>
    %28 = stablehlo.broadcast_in_dim %27, dims = [0, 1, 2] : (tensor<1x2x3xf64>) -> tensor<1x2x3x3xf64>
    %29 = stablehlo.divide %26, %28 : tensor<1x2x3x3xf64>
    %30 = stablehlo.reshape %29 : (tensor<1x2x3x3xf64>) -> tensor<2x3x3xf64>
    %31 = stablehlo.slice %7 [2:3, 0:3, 0:1, 0:4] : (tensor<3x3x1x4xf64>) -> tensor<1x3x1x4xf64>
    %32 = stablehlo.reshape %31 : (tensor<1x3x1x4xf64>) -> tensor<3x2x2xf64>
    %33 = stablehlo.transpose %32, dims = [1, 0, 2] {result_layout = dense<[2, 0, 1]> : tensor<3xindex>, xla_shape = "f64[2,3,2]{2,0,1}"} : (tensor<3x2x2xf64>) -> tensor<2x3x2xf64>
    %34 = stablehlo.dot_general %30, %33, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x3x3xf64>, tensor<2x3x2xf64>) -> tensor<2x3x2xf64>
    %35 = stablehlo.reshape %34 : (tensor<2x3x2xf64>) -> tensor<1x2x3x2xf64>
    %36 = stablehlo.transpose %35, dims = [2, 0, 1, 3] {result_layout = dense<[3, 0, 2, 1]> : tensor<4xindex>, xla_shape = "f64[3,1,2,2]{3,0,2,1}"} : (tensor<1x2x3x2xf64>) -> tensor<3x1x2x2xf64>
    %37 = stablehlo.reshape %36 : (tensor<3x1x2x2xf64>) -> tensor<3x4xf64>
    %38 = stablehlo.transpose %arg7, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f64[4,4]{0,1}"} : (tensor<4x4xf64>) -> tensor<4x4xf64>
    %39 = stablehlo.dot_general %37, %38, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x4xf64>, tensor<4x4xf64>) -> tensor<3x4xf64>
    %40 = stablehlo.broadcast_in_dim %arg6, dims = [1] : (tensor<4xf64>) -> tensor<3x4xf64>
    %41 = stablehlo.add %39, %40 : tensor<3x4xf64>
    %42 = stablehlo.reshape %41 : (tensor<3x4xf64>) -> tensor<1x3x4xf64>
    %43 = stablehlo.add %arg10, %42 : tensor<1x3x4xf64>
    %output, %batch_mean, %batch_var = "stablehlo.batch_norm_training"(%43, %cst_1, %cst_0) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<1x3x4xf64>, tensor<3xf64>, tensor<3xf64>) -> (tensor<1x3x4xf64>, tensor<3xf64>, tensor<3xf64>)
    %44 = stablehlo.broadcast_in_dim %arg11, dims = [2] : (tensor<4xf64>) -> tensor<1x3x4xf64>
    %45 = stablehlo.broadcast_in_dim %arg5, dims = [2] : (tensor<4xf64>) -> tensor<1x3x4xf64>
    %46 = stablehlo.multiply %output, %45 : tensor<1x3x4xf64>
    %47 = stablehlo.add %44, %46 : tensor<1x3x4xf64>
    %48 = stablehlo.reshape %47 : (tensor<1x3x4xf64>) -> tensor<3x4xf64>
    %49 = stablehlo.transpose %arg4, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f64[4,6]{0,1}"} : (tensor<6x4xf64>) -> tensor<4x6xf64>
    %50 = stablehlo.dot_general %48, %49, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x4xf64>, tensor<4x6xf64>) -> tensor<3x6xf64>
    %51 = stablehlo.broadcast_in_dim %arg3, dims = [1] : (tensor<6xf64>) -> tensor<3x6xf64>
    %52 = stablehlo.add %50, %51 : tensor<3x6xf64>
    %53 = stablehlo.reshape %52 : (tensor<3x6xf64>) -> tensor<1x3x6xf64>
    %54 = stablehlo.maximum %53, %cst : tensor<1x3x6xf64>
    %55 = stablehlo.reshape %54 : (tensor<1x3x6xf64>) -> tensor<3x6xf64>
    %56 = stablehlo.transpose %arg2, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "f64[6,4]{0,1}"} : (tensor<4x6xf64>) -> tensor<6x4xf64>
    %57 = stablehlo.dot_general %55, %56, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<3x6xf64>, tensor<6x4xf64>) -> tensor<3x4xf64>
    %58 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<4xf64>) -> tensor<3x4xf64>
    %59 = stablehlo.add %57, %58 : tensor<3x4xf64>
    %60 = stablehlo.reshape %59 : (tensor<3x4xf64>) -> tensor<1x3x4xf64>
    %61 = stablehlo.add %47, %60 : tensor<1x3x4xf64>
    %output_6, %batch_mean_7, %batch_var_8 = "stablehlo.batch_norm_training"(%61, %cst_1, %cst_0) <{epsilon = 9.99999974E-6 : f32, feature_index = 1 : i64}> : (tensor<1x3x4xf64>, tensor<3xf64>, tensor<3xf64>) -> (tensor<1x3x4xf64>, tensor<3xf64>, tensor<3xf64>)
    %62 = stablehlo.broadcast_in_dim %arg12, dims = [2] : (tensor<4xf64>) -> tensor<1x3x4xf64>
    %63 = stablehlo.broadcast_in_dim %arg0, dims = [2] : (tensor<4xf64>) -> tensor<1x3x4xf64>
    %64 = stablehlo.multiply %output_6, %63 : tensor<1x3x4xf64>
    %65 = stablehlo.add %62, %64 : tensor<1x3x4xf64>
    return %65 : tensor<1x3x4xf64>
  }
}
