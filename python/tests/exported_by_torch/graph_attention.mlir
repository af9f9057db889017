module @jit_func attributes {jax.uses_shape_polymorphism = false, mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8xf64>, %arg1: tensor<4x3xf64>, %arg2: tensor<5x3xf64>, %arg3: tensor<8xi64>, %arg4: tensor<8xi64>) -> (tensor<5x4xf64> {jax.result_info = "result[0]"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %cst_1 = stablehlo.constant dense<-1.000000e+09> : tensor<f64>
    %cst_2 = stablehlo.constant dense<2.000000e-01> : tensor<f64>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %c = stablehlo.constant dense<5> : tensor<i64>
    %c_4 = stablehlo.constant dense<0> : tensor<i64>
    %0 = stablehlo.transpose %arg1, dims = [1, 0] : (tensor<4x3xf64>) -> tensor<3x4xf64>
    %1 = stablehlo.dot_general %arg2, %0, contracting_dims = [1] x [0] : (tensor<5x3xf64>, tensor<3x4xf64>) -> tensor<5x4xf64>
    %2 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<i64>) -> tensor<8xi64>
    %3 = stablehlo.compare LT, %arg3, %2, SIGNED : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi1>
    %4 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i64>) -> tensor<8xi64>
    %5 = stablehlo.add %arg3, %4 : tensor<8xi64>
    %6 = stablehlo.select %3, %5, %arg3 : tensor<8xi1>, tensor<8xi64>
    %7 = stablehlo.convert %6 : (tensor<8xi64>) -> tensor<8xi32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0] : (tensor<8xi32>) -> tensor<8x1xi32>
    %9 = "stablehlo.gather"(%1, %8) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<5x4xf64>, tensor<8x1xi32>) -> tensor<8x4xf64>
    %10 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<i64>) -> tensor<8xi64>
    %11 = stablehlo.compare LT, %arg4, %10, SIGNED : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi1>
    %12 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i64>) -> tensor<8xi64>
    %13 = stablehlo.add %arg4, %12 : tensor<8xi64>
    %14 = stablehlo.select %11, %13, %arg4 : tensor<8xi1>, tensor<8xi64>
    %15 = stablehlo.convert %14 : (tensor<8xi64>) -> tensor<8xi32>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0] : (tensor<8xi32>) -> tensor<8x1xi32>
    %17 = "stablehlo.gather"(%1, %16) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<5x4xf64>, tensor<8x1xi32>) -> tensor<8x4xf64>
    %18 = stablehlo.concatenate %9, %17, dim = 1 : (tensor<8x4xf64>, tensor<8x4xf64>) -> tensor<8x8xf64>
    %19 = stablehlo.broadcast_in_dim %arg0, dims = [1] : (tensor<8xf64>) -> tensor<1x8xf64>
    %20 = stablehlo.broadcast_in_dim %19, dims = [0, 1] : (tensor<1x8xf64>) -> tensor<8x8xf64>
    %21 = stablehlo.multiply %18, %20 : tensor<8x8xf64>
    %22 = stablehlo.convert %21 : (tensor<8x8xf64>) -> tensor<8x8xf32>
    %23 = stablehlo.reduce(%22 init: %cst_3) applies stablehlo.add across dimensions = [1] : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>
    %24 = call @leaky_relu(%23, %cst_2) : (tensor<8xf32>, tensor<f64>) -> tensor<8xf32>
    %25 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f64>) -> tensor<5xf64>
    %26 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<i64>) -> tensor<8xi64>
    %27 = stablehlo.compare LT, %arg4, %26, SIGNED : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi1>
    %28 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i64>) -> tensor<8xi64>
    %29 = stablehlo.add %arg4, %28 : tensor<8xi64>
    %30 = stablehlo.select %27, %29, %arg4 : tensor<8xi1>, tensor<8xi64>
    %31 = stablehlo.convert %30 : (tensor<8xi64>) -> tensor<8xi32>
    %32 = stablehlo.broadcast_in_dim %31, dims = [0] : (tensor<8xi32>) -> tensor<8x1xi32>
    %33 = stablehlo.convert %24 : (tensor<8xf32>) -> tensor<8xf64>
    %34 = "stablehlo.scatter"(%25, %32, %33) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%arg5: tensor<f64>, %arg6: tensor<f64>):
      %88 = stablehlo.maximum %arg5, %arg6 : tensor<f64>
      stablehlo.return %88 : tensor<f64>
    }) : (tensor<5xf64>, tensor<8x1xi32>, tensor<8xf64>) -> tensor<5xf64>
    %35 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<i64>) -> tensor<8xi64>
    %36 = stablehlo.compare LT, %arg4, %35, SIGNED : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi1>
    %37 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i64>) -> tensor<8xi64>
    %38 = stablehlo.add %arg4, %37 : tensor<8xi64>
    %39 = stablehlo.select %36, %38, %arg4 : tensor<8xi1>, tensor<8xi64>
    %40 = stablehlo.convert %39 : (tensor<8xi64>) -> tensor<8xi32>
    %41 = stablehlo.broadcast_in_dim %40, dims = [0] : (tensor<8xi32>) -> tensor<8x1xi32>
    %42 = "stablehlo.gather"(%34, %41) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}> : (tensor<5xf64>, tensor<8x1xi32>) -> tensor<8xf64>
    %43 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f64>) -> tensor<8xf64>
    %44 = stablehlo.multiply %42, %43 : tensor<8xf64>
    %45 = stablehlo.convert %24 : (tensor<8xf32>) -> tensor<8xf64>
    %46 = stablehlo.subtract %45, %44 : tensor<8xf64>
    %47 = stablehlo.exponential %46 : tensor<8xf64>
    %48 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<5xf64>
    %49 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<i64>) -> tensor<8xi64>
    %50 = stablehlo.compare LT, %arg4, %49, SIGNED : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi1>
    %51 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i64>) -> tensor<8xi64>
    %52 = stablehlo.add %arg4, %51 : tensor<8xi64>
    %53 = stablehlo.select %50, %52, %arg4 : tensor<8xi1>, tensor<8xi64>
    %54 = stablehlo.convert %53 : (tensor<8xi64>) -> tensor<8xi32>
    %55 = stablehlo.broadcast_in_dim %54, dims = [0] : (tensor<8xi32>) -> tensor<8x1xi32>
    %56 = "stablehlo.scatter"(%48, %55, %47) <{scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%arg5: tensor<f64>, %arg6: tensor<f64>):
      %88 = stablehlo.add %arg5, %arg6 : tensor<f64>
      stablehlo.return %88 : tensor<f64>
    }) : (tensor<5xf64>, tensor<8x1xi32>, tensor<8xf64>) -> tensor<5xf64>
    %57 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<5x4xf64>
    %58 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<i64>) -> tensor<8xi64>
    %59 = stablehlo.compare LT, %arg4, %58, SIGNED : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi1>
    %60 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i64>) -> tensor<8xi64>
    %61 = stablehlo.add %arg4, %60 : tensor<8xi64>
    %62 = stablehlo.select %59, %61, %arg4 : tensor<8xi1>, tensor<8xi64>
    %63 = stablehlo.convert %62 : (tensor<8xi64>) -> tensor<8xi32>
    %64 = stablehlo.broadcast_in_dim %63, dims = [0] : (tensor<8xi32>) -> tensor<8x1xi32>
    %65 = "stablehlo.gather"(%56, %64) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1>}> : (tensor<5xf64>, tensor<8x1xi32>) -> tensor<8xf64>
    %66 = stablehlo.divide %47, %65 : tensor<8xf64>
    %67 = stablehlo.broadcast_in_dim %66, dims = [0] : (tensor<8xf64>) -> tensor<8x1xf64>
    %68 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<i64>) -> tensor<8xi64>
    %69 = stablehlo.compare LT, %arg3, %68, SIGNED : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi1>
    %70 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i64>) -> tensor<8xi64>
    %71 = stablehlo.add %arg3, %70 : tensor<8xi64>
    %72 = stablehlo.select %69, %71, %arg3 : tensor<8xi1>, tensor<8xi64>
    %73 = stablehlo.convert %72 : (tensor<8xi64>) -> tensor<8xi32>
    %74 = stablehlo.broadcast_in_dim %73, dims = [0] : (tensor<8xi32>) -> tensor<8x1xi32>
    %75 = "stablehlo.gather"(%1, %74) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1>, slice_sizes = array<i64: 1, 4>}> : (tensor<5x4xf64>, tensor<8x1xi32>) -> tensor<8x4xf64>
    %76 = stablehlo.broadcast_in_dim %67, dims = [0, 1] : (tensor<8x1xf64>) -> tensor<8x4xf64>
    %77 = stablehlo.multiply %76, %75 : tensor<8x4xf64>
    %78 = stablehlo.convert %77 : (tensor<8x4xf64>) -> tensor<8x4xf32>
    %79 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<i64>) -> tensor<8xi64>
    %80 = stablehlo.compare LT, %arg4, %79, SIGNED : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi1>
    %81 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i64>) -> tensor<8xi64>
    %82 = stablehlo.add %arg4, %81 : tensor<8xi64>
    %83 = stablehlo.select %80, %82, %arg4 : tensor<8xi1>, tensor<8xi64>
    %84 = stablehlo.convert %83 : (tensor<8xi64>) -> tensor<8xi32>
    %85 = stablehlo.broadcast_in_dim %84, dims = [0] : (tensor<8xi32>) -> tensor<8x1xi32>
    %86 = stablehlo.convert %78 : (tensor<8x4xf32>) -> tensor<8x4xf64>
    %87 = "stablehlo.scatter"(%57, %85, %86) <{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}> ({
    ^bb0(%arg5: tensor<f64>, %arg6: tensor<f64>):
      %88 = stablehlo.add %arg5, %arg6 : tensor<f64>
      stablehlo.return %88 : tensor<f64>
    }) : (tensor<5x4xf64>, tensor<8x1xi32>, tensor<8x4xf64>) -> tensor<5x4xf64>
    return %87 : tensor<5x4xf64>
  }
  func.func private @leaky_relu(%arg0: tensor<8xf32>, %arg1: tensor<f64>) -> tensor<8xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %1 = stablehlo.compare GE, %arg0, %0, FLOAT : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
    %2 = stablehlo.convert %arg1 : (tensor<f64>) -> tensor<f32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<f32>) -> tensor<8xf32>
    %4 = stablehlo.multiply %3, %arg0 : tensor<8xf32>
    %5 = call @_where(%1, %arg0, %4) : (tensor<8xi1>, tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
    return %5 : tensor<8xf32>
  }
  func.func private @_where(%arg0: tensor<8xi1>, %arg1: tensor<8xf32>, %arg2: tensor<8xf32>) -> tensor<8xf32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<8xi1>, tensor<8xf32>
    return %0 : tensor<8xf32>
  }
}
