module @jit_func {
  func.func public @main(%arg0: tensor<5x4xf64>, %arg1: tensor<7x4xf64>, %arg2: tensor<12x4xf64>, %arg3: tensor<12xf64>, %arg4: tensor<4x4xf64>, %arg5: tensor<4xf64>, %arg6: tensor<4xf64>, %arg7: tensor<4xf64>, %arg8: tensor<4xf64>, %arg9: tensor<4xf64>, %arg10: tensor<8x4xf64>, %arg11: tensor<8xf64>, %arg12: tensor<4x8xf64>, %arg13: tensor<4xf64>, %arg14: tensor<7x4xf64>, %arg15: tensor<2x5xi64>, %arg16: tensor<2x5xi64>) -> (tensor<f64> ) {
    %cst = stablehlo.constant dense<-1.000000e+00> : tensor<f64>
    %c = stablehlo.constant dense<7> : tensor<i64>
    %c_0 = stablehlo.constant dense<10> : tensor<i64>
    %c_1 = stablehlo.constant dense<-100> : tensor<i64>
    %cst_2 = stablehlo.constant dense<5.000000e-01> : tensor<f64>
    %cst_3 = stablehlo.constant dense<0.79788456080286541> : tensor<f64>
    %cst_4 = stablehlo.constant dense<4.471500e-02> : tensor<f64>
    %c_5 = stablehlo.constant dense<false> : tensor<i1>
    %cst_6 = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
    %c_7 = stablehlo.constant dense<1> : tensor<i64>
    %c_8 = stablehlo.constant dense<true> : tensor<i1>
    %cst_9 = stablehlo.constant dense<0.8408964152537145> : tensor<f64>
    %cst_10 = stablehlo.constant dense<1.000000e-05> : tensor<f64>
    %c_11 = stablehlo.constant dense<0> : tensor<i64>
    %cst_12 = stablehlo.constant dense<4.000000e+00> : tensor<f64>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %cst_14 = stablehlo.constant dense<1.000000e+00> : tensor<f64>
    %0 = call @_take(%arg1, %arg15) : (tensor<7x4xf64>, tensor<2x5xi64>) -> tensor<2x5x4xf64>
    %1 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f64>) -> tensor<5x4xf64>
    %2 = stablehlo.multiply %arg0, %1 : tensor<5x4xf64>
    %3 = stablehlo.broadcast_in_dim %2, dims = [1, 2] : (tensor<5x4xf64>) -> tensor<1x5x4xf64>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<1x5x4xf64>) -> tensor<2x5x4xf64>
    %5 = stablehlo.add %0, %4 : tensor<2x5x4xf64>
    %6 = stablehlo.reduce(%5 init: %cst_13) applies stablehlo.add across dimensions = [2] : (tensor<2x5x4xf64>, tensor<f64>) -> tensor<2x5xf64>
    %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1] : (tensor<2x5xf64>) -> tensor<2x5x1xf64>
    %8 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f64>) -> tensor<2x5x1xf64>
    %9 = stablehlo.divide %7, %8 : tensor<2x5x1xf64>
    %10 = call @_var(%5, %c_11) : (tensor<2x5x4xf64>, tensor<i64>) -> tensor<2x5x1xf64>
    %11 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f64>) -> tensor<2x5x1xf64>
    %12 = stablehlo.add %10, %11 : tensor<2x5x1xf64>
    %13 = stablehlo.rsqrt %12 : tensor<2x5x1xf64>
    %14 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<2x5x1xf64>) -> tensor<2x5x4xf64>
    %15 = stablehlo.subtract %5, %14 : tensor<2x5x4xf64>
    %16 = stablehlo.broadcast_in_dim %13, dims = [0, 1, 2] : (tensor<2x5x1xf64>) -> tensor<2x5x4xf64>
    %17 = stablehlo.multiply %15, %16 : tensor<2x5x4xf64>
    %18 = stablehlo.broadcast_in_dim %arg6, dims = [2] : (tensor<4xf64>) -> tensor<1x1x4xf64>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2] : (tensor<1x1x4xf64>) -> tensor<2x5x4xf64>
    %20 = stablehlo.multiply %17, %19 : tensor<2x5x4xf64>
    %21 = stablehlo.broadcast_in_dim %arg7, dims = [2] : (tensor<4xf64>) -> tensor<1x1x4xf64>
    %22 = stablehlo.broadcast_in_dim %21, dims = [0, 1, 2] : (tensor<1x1x4xf64>) -> tensor<2x5x4xf64>
    %23 = stablehlo.add %20, %22 : tensor<2x5x4xf64>
    %24 = stablehlo.reshape %23 : (tensor<2x5x4xf64>) -> tensor<10x4xf64>
    %25 = stablehlo.transpose %arg2, dims = [1, 0] : (tensor<12x4xf64>) -> tensor<4x12xf64>
    %26 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f64>) -> tensor<12xf64>
    %27 = stablehlo.multiply %arg3, %26 : tensor<12xf64>
    %28 = stablehlo.dot_general %24, %25, contracting_dims = [1] x [0] : (tensor<10x4xf64>, tensor<4x12xf64>) -> tensor<10x12xf64>
    %29 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f64>) -> tensor<10x12xf64>
    %30 = stablehlo.multiply %29, %28 : tensor<10x12xf64>
    %31 = stablehlo.broadcast_in_dim %27, dims = [1] : (tensor<12xf64>) -> tensor<1x12xf64>
    %32 = stablehlo.broadcast_in_dim %31, dims = [0, 1] : (tensor<1x12xf64>) -> tensor<10x12xf64>
    %33 = stablehlo.add %32, %30 : tensor<10x12xf64>
    %34 = stablehlo.reshape %33 : (tensor<10x12xf64>) -> tensor<2x5x12xf64>
    %35 = stablehlo.slice %34 [0:2, 0:5, 0:4] : (tensor<2x5x12xf64>) -> tensor<2x5x4xf64>
    %36 = stablehlo.slice %34 [0:2, 0:5, 4:8] : (tensor<2x5x12xf64>) -> tensor<2x5x4xf64>
    %37 = stablehlo.slice %34 [0:2, 0:5, 8:12] : (tensor<2x5x12xf64>) -> tensor<2x5x4xf64>
    %38 = stablehlo.reshape %35 : (tensor<2x5x4xf64>) -> tensor<2x5x2x2xf64>
    %39 = stablehlo.transpose %38, dims = [0, 2, 1, 3] : (tensor<2x5x2x2xf64>) -> tensor<2x2x5x2xf64>
    %40 = stablehlo.reshape %36 : (tensor<2x5x4xf64>) -> tensor<2x5x2x2xf64>
    %41 = stablehlo.transpose %40, dims = [0, 2, 1, 3] : (tensor<2x5x2x2xf64>) -> tensor<2x2x5x2xf64>
    %42 = stablehlo.reshape %37 : (tensor<2x5x4xf64>) -> tensor<2x5x2x2xf64>
    %43 = stablehlo.transpose %42, dims = [0, 2, 1, 3] : (tensor<2x5x2x2xf64>) -> tensor<2x2x5x2xf64>
    %44 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f64>) -> tensor<2x2x5x2xf64>
    %45 = stablehlo.multiply %39, %44 : tensor<2x2x5x2xf64>
    %46 = stablehlo.convert %45 : (tensor<2x2x5x2xf64>) -> tensor<2x2x5x2xf32>
    %47 = stablehlo.broadcast_in_dim %c_8, dims = [] : (tensor<i1>) -> tensor<5x5xi1>
    %48 = stablehlo.iota dim = 0 : tensor<5xi64>
    %49 = stablehlo.broadcast_in_dim %48, dims = [1] : (tensor<5xi64>) -> tensor<1x5xi64>
    %50 = stablehlo.iota dim = 0 : tensor<5xi64>
    %51 = stablehlo.broadcast_in_dim %50, dims = [0] : (tensor<5xi64>) -> tensor<5x1xi64>
    %52 = stablehlo.broadcast_in_dim %c_7, dims = [] : (tensor<i64>) -> tensor<5x1xi64>
    %53 = stablehlo.multiply %51, %52 : tensor<5x1xi64>
    %54 = stablehlo.broadcast_in_dim %49, dims = [0, 1] : (tensor<1x5xi64>) -> tensor<5x5xi64>
    %55 = stablehlo.broadcast_in_dim %53, dims = [0, 1] : (tensor<5x1xi64>) -> tensor<5x5xi64>
    %56 = stablehlo.subtract %54, %55 : tensor<5x5xi64>
    %57 = stablehlo.broadcast_in_dim %c_11, dims = [] : (tensor<i64>) -> tensor<5x5xi64>
    %58 = stablehlo.compare LE, %56, %57, SIGNED : (tensor<5x5xi64>, tensor<5x5xi64>) -> tensor<5x5xi1>
    %59 = stablehlo.and %58, %47 : tensor<5x5xi1>
    %60 = call @_where_1(%59, %cst_13, %cst_6) : (tensor<5x5xi1>, tensor<f64>, tensor<f64>) -> tensor<5x5xf64>
    %61 = stablehlo.transpose %41, dims = [0, 1, 3, 2] : (tensor<2x2x5x2xf64>) -> tensor<2x2x2x5xf64>
    %62 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f64>) -> tensor<2x2x2x5xf64>
    %63 = stablehlo.multiply %61, %62 : tensor<2x2x2x5xf64>
    %64 = stablehlo.convert %63 : (tensor<2x2x2x5xf64>) -> tensor<2x2x2x5xf32>
    %65 = stablehlo.reshape %46 : (tensor<2x2x5x2xf32>) -> tensor<4x5x2xf32>
    %66 = stablehlo.reshape %64 : (tensor<2x2x2x5xf32>) -> tensor<4x2x5xf32>
    %67 = stablehlo.dot_general %65, %66, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<4x5x2xf32>, tensor<4x2x5xf32>) -> tensor<4x5x5xf32>
    %68 = stablehlo.reshape %67 : (tensor<4x5x5xf32>) -> tensor<2x2x5x5xf32>
    %69 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f64>) -> tensor<5x5xf64>
    %70 = stablehlo.multiply %60, %69 : tensor<5x5xf64>
    %71 = stablehlo.convert %68 : (tensor<2x2x5x5xf32>) -> tensor<2x2x5x5xf64>
    %72 = stablehlo.broadcast_in_dim %70, dims = [2, 3] : (tensor<5x5xf64>) -> tensor<1x1x5x5xf64>
    %73 = stablehlo.broadcast_in_dim %72, dims = [0, 1, 2, 3] : (tensor<1x1x5x5xf64>) -> tensor<2x2x5x5xf64>
    %74 = stablehlo.add %71, %73 : tensor<2x2x5x5xf64>
    %75 = stablehlo.reduce(%74 init: %cst_6) applies stablehlo.maximum across dimensions = [3] : (tensor<2x2x5x5xf64>, tensor<f64>) -> tensor<2x2x5xf64>
    %76 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f64>) -> tensor<2x2x5xf64>
    %77 = stablehlo.maximum %76, %75 : tensor<2x2x5xf64>
    %78 = stablehlo.broadcast_in_dim %77, dims = [0, 1, 2] : (tensor<2x2x5xf64>) -> tensor<2x2x5x1xf64>
    %79 = stablehlo.broadcast_in_dim %78, dims = [0, 1, 2, 3] : (tensor<2x2x5x1xf64>) -> tensor<2x2x5x5xf64>
    %80 = stablehlo.subtract %74, %79 : tensor<2x2x5x5xf64>
    %81 = stablehlo.exponential %80 : tensor<2x2x5x5xf64>
    %82 = stablehlo.reduce(%81 init: %cst_13) applies stablehlo.add across dimensions = [3] : (tensor<2x2x5x5xf64>, tensor<f64>) -> tensor<2x2x5xf64>
    %83 = stablehlo.broadcast_in_dim %82, dims = [0, 1, 2] : (tensor<2x2x5xf64>) -> tensor<2x2x5x1xf64>
    %84 = stablehlo.broadcast_in_dim %83, dims = [0, 1, 2, 3] : (tensor<2x2x5x1xf64>) -> tensor<2x2x5x5xf64>
    %85 = stablehlo.divide %81, %84 : tensor<2x2x5x5xf64>
    %86 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f64>) -> tensor<2x2x5x5xf64>
    %87 = stablehlo.compare EQ, %74, %86, FLOAT : (tensor<2x2x5x5xf64>, tensor<2x2x5x5xf64>) -> tensor<2x2x5x5xi1>
    %88 = stablehlo.not %87 : tensor<2x2x5x5xi1>
    %89 = stablehlo.reduce(%88 init: %c_5) applies stablehlo.or across dimensions = [3] : (tensor<2x2x5x5xi1>, tensor<i1>) -> tensor<2x2x5xi1>
    %90 = stablehlo.broadcast_in_dim %89, dims = [0, 1, 2] : (tensor<2x2x5xi1>) -> tensor<2x2x5x1xi1>
    %91 = stablehlo.not %90 : tensor<2x2x5x1xi1>
    %92 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f64>) -> tensor<2x2x5x5xf64>
    %93 = call @_where_2(%91, %92, %85) : (tensor<2x2x5x1xi1>, tensor<2x2x5x5xf64>, tensor<2x2x5x5xf64>) -> tensor<2x2x5x5xf64>
    %94 = stablehlo.reshape %93 : (tensor<2x2x5x5xf64>) -> tensor<4x5x5xf64>
    %95 = stablehlo.reshape %43 : (tensor<2x2x5x2xf64>) -> tensor<4x5x2xf64>
    %96 = stablehlo.dot_general %94, %95, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<4x5x5xf64>, tensor<4x5x2xf64>) -> tensor<4x5x2xf64>
    %97 = stablehlo.reshape %96 : (tensor<4x5x2xf64>) -> tensor<2x2x5x2xf64>
    %98 = stablehlo.transpose %97, dims = [2, 0, 1, 3] : (tensor<2x2x5x2xf64>) -> tensor<5x2x2x2xf64>
    %99 = stablehlo.transpose %98, dims = [1, 2, 0, 3] : (tensor<5x2x2x2xf64>) -> tensor<2x2x5x2xf64>
    %100 = stablehlo.transpose %99, dims = [0, 2, 1, 3] : (tensor<2x2x5x2xf64>) -> tensor<2x5x2x2xf64>
    %101 = stablehlo.reshape %100 : (tensor<2x5x2x2xf64>) -> tensor<2x5x4xf64>
    %102 = stablehlo.transpose %arg4, dims = [1, 0] : (tensor<4x4xf64>) -> tensor<4x4xf64>
    %103 = stablehlo.broadcast_in_dim %102, dims = [1, 2] : (tensor<4x4xf64>) -> tensor<2x4x4xf64>
    %104 = stablehlo.dot_general %101, %103, batching_dims = [0] x [0], contracting_dims = [2] x [1] : (tensor<2x5x4xf64>, tensor<2x4x4xf64>) -> tensor<2x5x4xf64>
    %105 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f64>) -> tensor<4xf64>
    %106 = stablehlo.multiply %arg5, %105 : tensor<4xf64>
    %107 = stablehlo.broadcast_in_dim %106, dims = [2] : (tensor<4xf64>) -> tensor<1x1x4xf64>
    %108 = stablehlo.broadcast_in_dim %107, dims = [0, 1, 2] : (tensor<1x1x4xf64>) -> tensor<2x5x4xf64>
    %109 = stablehlo.add %104, %108 : tensor<2x5x4xf64>
    %110 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f64>) -> tensor<2x5x4xf64>
    %111 = stablehlo.multiply %109, %110 : tensor<2x5x4xf64>
    %112 = stablehlo.add %5, %111 : tensor<2x5x4xf64>
    %113 = stablehlo.reduce(%112 init: %cst_13) applies stablehlo.add across dimensions = [2] : (tensor<2x5x4xf64>, tensor<f64>) -> tensor<2x5xf64>
    %114 = stablehlo.broadcast_in_dim %113, dims = [0, 1] : (tensor<2x5xf64>) -> tensor<2x5x1xf64>
    %115 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f64>) -> tensor<2x5x1xf64>
    %116 = stablehlo.divide %114, %115 : tensor<2x5x1xf64>
    %117 = call @_var(%112, %c_11) : (tensor<2x5x4xf64>, tensor<i64>) -> tensor<2x5x1xf64>
    %118 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f64>) -> tensor<2x5x1xf64>
    %119 = stablehlo.add %117, %118 : tensor<2x5x1xf64>
    %120 = stablehlo.rsqrt %119 : tensor<2x5x1xf64>
    %121 = stablehlo.broadcast_in_dim %116, dims = [0, 1, 2] : (tensor<2x5x1xf64>) -> tensor<2x5x4xf64>
    %122 = stablehlo.subtract %112, %121 : tensor<2x5x4xf64>
    %123 = stablehlo.broadcast_in_dim %120, dims = [0, 1, 2] : (tensor<2x5x1xf64>) -> tensor<2x5x4xf64>
    %124 = stablehlo.multiply %122, %123 : tensor<2x5x4xf64>
    %125 = stablehlo.broadcast_in_dim %arg8, dims = [2] : (tensor<4xf64>) -> tensor<1x1x4xf64>
    %126 = stablehlo.broadcast_in_dim %125, dims = [0, 1, 2] : (tensor<1x1x4xf64>) -> tensor<2x5x4xf64>
    %127 = stablehlo.multiply %124, %126 : tensor<2x5x4xf64>
    %128 = stablehlo.broadcast_in_dim %arg9, dims = [2] : (tensor<4xf64>) -> tensor<1x1x4xf64>
    %129 = stablehlo.broadcast_in_dim %128, dims = [0, 1, 2] : (tensor<1x1x4xf64>) -> tensor<2x5x4xf64>
    %130 = stablehlo.add %127, %129 : tensor<2x5x4xf64>
    %131 = stablehlo.reshape %130 : (tensor<2x5x4xf64>) -> tensor<10x4xf64>
    %132 = stablehlo.transpose %arg10, dims = [1, 0] : (tensor<8x4xf64>) -> tensor<4x8xf64>
    %133 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f64>) -> tensor<8xf64>
    %134 = stablehlo.multiply %arg11, %133 : tensor<8xf64>
    %135 = stablehlo.dot_general %131, %132, contracting_dims = [1] x [0] : (tensor<10x4xf64>, tensor<4x8xf64>) -> tensor<10x8xf64>
    %136 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f64>) -> tensor<10x8xf64>
    %137 = stablehlo.multiply %136, %135 : tensor<10x8xf64>
    %138 = stablehlo.broadcast_in_dim %134, dims = [1] : (tensor<8xf64>) -> tensor<1x8xf64>
    %139 = stablehlo.broadcast_in_dim %138, dims = [0, 1] : (tensor<1x8xf64>) -> tensor<10x8xf64>
    %140 = stablehlo.add %139, %137 : tensor<10x8xf64>
    %141 = stablehlo.reshape %140 : (tensor<10x8xf64>) -> tensor<2x5x8xf64>
    %142 = stablehlo.multiply %141, %141 : tensor<2x5x8xf64>
    %143 = stablehlo.multiply %142, %141 : tensor<2x5x8xf64>
    %144 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f64>) -> tensor<2x5x8xf64>
    %145 = stablehlo.multiply %144, %143 : tensor<2x5x8xf64>
    %146 = stablehlo.add %141, %145 : tensor<2x5x8xf64>
    %147 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f64>) -> tensor<2x5x8xf64>
    %148 = stablehlo.multiply %147, %146 : tensor<2x5x8xf64>
    %149 = stablehlo.tanh %148 : tensor<2x5x8xf64>
    %150 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f64>) -> tensor<2x5x8xf64>
    %151 = stablehlo.add %150, %149 : tensor<2x5x8xf64>
    %152 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f64>) -> tensor<2x5x8xf64>
    %153 = stablehlo.multiply %152, %151 : tensor<2x5x8xf64>
    %154 = stablehlo.multiply %141, %153 : tensor<2x5x8xf64>
    %155 = stablehlo.reshape %154 : (tensor<2x5x8xf64>) -> tensor<10x8xf64>
    %156 = stablehlo.transpose %arg12, dims = [1, 0] : (tensor<4x8xf64>) -> tensor<8x4xf64>
    %157 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f64>) -> tensor<4xf64>
    %158 = stablehlo.multiply %arg13, %157 : tensor<4xf64>
    %159 = stablehlo.dot_general %155, %156, contracting_dims = [1] x [0] : (tensor<10x8xf64>, tensor<8x4xf64>) -> tensor<10x4xf64>
    %160 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f64>) -> tensor<10x4xf64>
    %161 = stablehlo.multiply %160, %159 : tensor<10x4xf64>
    %162 = stablehlo.broadcast_in_dim %158, dims = [1] : (tensor<4xf64>) -> tensor<1x4xf64>
    %163 = stablehlo.broadcast_in_dim %162, dims = [0, 1] : (tensor<1x4xf64>) -> tensor<10x4xf64>
    %164 = stablehlo.add %163, %161 : tensor<10x4xf64>
    %165 = stablehlo.reshape %164 : (tensor<10x4xf64>) -> tensor<2x5x4xf64>
    %166 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f64>) -> tensor<2x5x4xf64>
    %167 = stablehlo.multiply %165, %166 : tensor<2x5x4xf64>
    %168 = stablehlo.add %112, %167 : tensor<2x5x4xf64>
    %169 = stablehlo.transpose %arg14, dims = [1, 0] : (tensor<7x4xf64>) -> tensor<4x7xf64>
    %170 = stablehlo.reshape %168 : (tensor<2x5x4xf64>) -> tensor<10x4xf64>
    %171 = stablehlo.dot_general %170, %169, contracting_dims = [1] x [0] : (tensor<10x4xf64>, tensor<4x7xf64>) -> tensor<10x7xf64>
    %172 = stablehlo.reshape %171 : (tensor<10x7xf64>) -> tensor<2x5x7xf64>
    %173 = stablehlo.reshape %172 : (tensor<2x5x7xf64>) -> tensor<10x7xf64>
    %174 = stablehlo.reshape %arg16 : (tensor<2x5xi64>) -> tensor<10xi64>
    %175 = call @log_softmax(%173) : (tensor<10x7xf64>) -> tensor<10x7xf64>
    %176 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i64>) -> tensor<10xi64>
    %177 = stablehlo.compare NE, %174, %176, SIGNED : (tensor<10xi64>, tensor<10xi64>) -> tensor<10xi1>
    %178 = call @_where_3(%177, %174, %c_11) : (tensor<10xi1>, tensor<10xi64>, tensor<i64>) -> tensor<10xi64>
    %179 = stablehlo.broadcast_in_dim %178, dims = [0] : (tensor<10xi64>) -> tensor<10x1xi64>
    %180 = stablehlo.iota dim = 0 : tensor<10xi64>
    %181 = stablehlo.reshape %180 : (tensor<10xi64>) -> tensor<10x1xi64>
    %182 = stablehlo.broadcast_in_dim %c_11, dims = [] : (tensor<i64>) -> tensor<10x1xi64>
    %183 = stablehlo.compare LT, %181, %182, SIGNED : (tensor<10x1xi64>, tensor<10x1xi64>) -> tensor<10x1xi1>
    %184 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i64>) -> tensor<10x1xi64>
    %185 = stablehlo.add %181, %184 : tensor<10x1xi64>
    %186 = stablehlo.select %183, %185, %181 : tensor<10x1xi1>, tensor<10x1xi64>
    %187 = stablehlo.broadcast_in_dim %c_11, dims = [] : (tensor<i64>) -> tensor<10x1xi64>
    %188 = stablehlo.compare LT, %179, %187, SIGNED : (tensor<10x1xi64>, tensor<10x1xi64>) -> tensor<10x1xi1>
    %189 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i64>) -> tensor<10x1xi64>
    %190 = stablehlo.add %179, %189 : tensor<10x1xi64>
    %191 = stablehlo.select %188, %190, %179 : tensor<10x1xi1>, tensor<10x1xi64>
    %192 = stablehlo.convert %186 : (tensor<10x1xi64>) -> tensor<10x1xi32>
    %193 = stablehlo.convert %191 : (tensor<10x1xi64>) -> tensor<10x1xi32>
    %194 = stablehlo.broadcast_in_dim %192, dims = [0, 1] : (tensor<10x1xi32>) -> tensor<10x1x1xi32>
    %195 = stablehlo.broadcast_in_dim %193, dims = [0, 1] : (tensor<10x1xi32>) -> tensor<10x1x1xi32>
    %196 = stablehlo.concatenate %194, %195, dim = 2 : (tensor<10x1x1xi32>, tensor<10x1x1xi32>) -> tensor<10x1x2xi32>
    %197 = "stablehlo.gather"(%175, %196) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1>}> : (tensor<10x7xf64>, tensor<10x1x2xi32>) -> tensor<10x1xf64>
    %198 = stablehlo.reshape %197 : (tensor<10x1xf64>) -> tensor<10xf64>
    %199 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<10xf64>
    %200 = stablehlo.multiply %199, %198 : tensor<10xf64>
    %201 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i64>) -> tensor<10xi64>
    %202 = stablehlo.compare NE, %174, %201, SIGNED : (tensor<10xi64>, tensor<10xi64>) -> tensor<10xi1>
    %203 = call @_where_4(%202, %200, %cst_13) : (tensor<10xi1>, tensor<10xf64>, tensor<f64>) -> tensor<10xf64>
    %204 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i64>) -> tensor<10xi64>
    %205 = stablehlo.compare NE, %174, %204, SIGNED : (tensor<10xi64>, tensor<10xi64>) -> tensor<10xi1>
    %206 = stablehlo.convert %205 : (tensor<10xi1>) -> tensor<10xi32>
    %207 = stablehlo.convert %206 : (tensor<10xi32>) -> tensor<10xi64>
    %208 = stablehlo.reduce(%207 init: %c_11) applies stablehlo.add across dimensions = [0] : (tensor<10xi64>, tensor<i64>) -> tensor<i64>
    %209 = stablehlo.convert %208 : (tensor<i64>) -> tensor<f64>
    %210 = stablehlo.reduce(%203 init: %cst_13) applies stablehlo.add across dimensions = [0] : (tensor<10xf64>, tensor<f64>) -> tensor<f64>
    %211 = stablehlo.divide %210, %209 : tensor<f64>
    return %211 : tensor<f64>
  }
  func.func private @_take(%arg0: tensor<7x4xf64>, %arg1: tensor<2x5xi64>) -> tensor<2x5x4xf64> {
    %cst = stablehlo.constant dense<0x7FF8000000000000> : tensor<f64>
    %c = stablehlo.constant dense<true> : tensor<i1>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %c_1 = stablehlo.constant dense<6> : tensor<1xi32>
    %c_2 = stablehlo.constant dense<7> : tensor<i64>
    %c_3 = stablehlo.constant dense<0> : tensor<i64>
    %0 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<i64>) -> tensor<2x5xi64>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<2x5xi64>, tensor<2x5xi64>) -> tensor<2x5xi1>
    %2 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i64>) -> tensor<2x5xi64>
    %3 = stablehlo.add %arg1, %2 : tensor<2x5xi64>
    %4 = call @_where(%1, %3, %arg1) : (tensor<2x5xi1>, tensor<2x5xi64>, tensor<2x5xi64>) -> tensor<2x5xi64>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<2x5xi64>) -> tensor<2x5x1xi64>
    %6 = stablehlo.convert %5 : (tensor<2x5x1xi64>) -> tensor<2x5x1xi32>
    %7 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<2x5x1xi32>
    %8 = stablehlo.compare GE, %6, %7, SIGNED : (tensor<2x5x1xi32>, tensor<2x5x1xi32>) -> tensor<2x5x1xi1>
    %9 = stablehlo.broadcast_in_dim %c_1, dims = [2] : (tensor<1xi32>) -> tensor<1x1x1xi32>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<1x1x1xi32>) -> tensor<2x5x1xi32>
    %11 = stablehlo.compare LE, %6, %10, SIGNED : (tensor<2x5x1xi32>, tensor<2x5x1xi32>) -> tensor<2x5x1xi1>
    %12 = stablehlo.and %8, %11 : tensor<2x5x1xi1>
    %13 = stablehlo.reduce(%12 init: %c) applies stablehlo.and across dimensions = [2] : (tensor<2x5x1xi1>, tensor<i1>) -> tensor<2x5xi1>
    %14 = "stablehlo.gather"(%arg0, %6) <{dimension_numbers = #stablehlo.gather<offset_dims = [2], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 2>, slice_sizes = array<i64: 1, 4>}> : (tensor<7x4xf64>, tensor<2x5x1xi32>) -> tensor<2x5x4xf64>
    %15 = stablehlo.broadcast_in_dim %13, dims = [0, 1] : (tensor<2x5xi1>) -> tensor<2x5x4xi1>
    %16 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f64>) -> tensor<2x5x4xf64>
    %17 = stablehlo.select %15, %14, %16 : tensor<2x5x4xi1>, tensor<2x5x4xf64>
    return %17 : tensor<2x5x4xf64>
  }
  func.func private @_where(%arg0: tensor<2x5xi1>, %arg1: tensor<2x5xi64>, %arg2: tensor<2x5xi64>) -> tensor<2x5xi64> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<2x5xi1>, tensor<2x5xi64>
    return %0 : tensor<2x5xi64>
  }
  func.func private @_var(%arg0: tensor<2x5x4xf64>, %arg1: tensor<i64>) -> tensor<2x5x1xf64> {
    %cst = stablehlo.constant dense<0x7FF8000000000000> : tensor<f64>
    %cst_0 = stablehlo.constant dense<4.000000e+00> : tensor<f64>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %0 = stablehlo.reduce(%arg0 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<2x5x4xf64>, tensor<f64>) -> tensor<2x5xf64>
    %1 = stablehlo.broadcast_in_dim %0, dims = [0, 1] : (tensor<2x5xf64>) -> tensor<2x5x1xf64>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f64>) -> tensor<2x5x1xf64>
    %3 = stablehlo.divide %1, %2 : tensor<2x5x1xf64>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1, 2] : (tensor<2x5x1xf64>) -> tensor<2x5x4xf64>
    %5 = stablehlo.subtract %arg0, %4 : tensor<2x5x4xf64>
    %6 = stablehlo.multiply %5, %5 : tensor<2x5x4xf64>
    %7 = stablehlo.convert %arg1 : (tensor<i64>) -> tensor<f64>
    %8 = stablehlo.subtract %cst_0, %7 : tensor<f64>
    %9 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<2x5x4xf64>, tensor<f64>) -> tensor<2x5xf64>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<2x5xf64>) -> tensor<2x5x1xf64>
    %11 = stablehlo.broadcast_in_dim %8, dims = [] : (tensor<f64>) -> tensor<2x5x1xf64>
    %12 = stablehlo.divide %10, %11 : tensor<2x5x1xf64>
    %13 = stablehlo.compare GT, %8, %cst_1, FLOAT : (tensor<f64>, tensor<f64>) -> tensor<i1>
    %14 = call @_where_0(%13, %12, %cst) : (tensor<i1>, tensor<2x5x1xf64>, tensor<f64>) -> tensor<2x5x1xf64>
    return %14 : tensor<2x5x1xf64>
  }
  func.func private @_where_0(%arg0: tensor<i1>, %arg1: tensor<2x5x1xf64>, %arg2: tensor<f64>) -> tensor<2x5x1xf64> {
    %0 = stablehlo.convert %arg2 : tensor<f64>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f64>) -> tensor<2x5x1xf64>
    %2 = stablehlo.select %arg0, %arg1, %1 : tensor<i1>, tensor<2x5x1xf64>
    return %2 : tensor<2x5x1xf64>
  }
  func.func private @_where_1(%arg0: tensor<5x5xi1>, %arg1: tensor<f64>, %arg2: tensor<f64>) -> tensor<5x5xf64> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f64>) -> tensor<5x5xf64>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f64>) -> tensor<5x5xf64>
    %2 = stablehlo.select %arg0, %0, %1 : tensor<5x5xi1>, tensor<5x5xf64>
    return %2 : tensor<5x5xf64>
  }
  func.func private @_where_2(%arg0: tensor<2x2x5x1xi1>, %arg1: tensor<2x2x5x5xf64>, %arg2: tensor<2x2x5x5xf64>) -> tensor<2x2x5x5xf64> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1, 2, 3] : (tensor<2x2x5x1xi1>) -> tensor<2x2x5x5xi1>
    %1 = stablehlo.select %0, %arg1, %arg2 : tensor<2x2x5x5xi1>, tensor<2x2x5x5xf64>
    return %1 : tensor<2x2x5x5xf64>
  }
  func.func private @log_softmax(%arg0: tensor<10x7xf64>) -> tensor<10x7xf64> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %cst_0 = stablehlo.constant dense<0xFFF0000000000000> : tensor<f64>
    %0 = stablehlo.reduce(%arg0 init: %cst_0) applies stablehlo.maximum across dimensions = [1] : (tensor<10x7xf64>, tensor<f64>) -> tensor<10xf64>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f64>) -> tensor<10xf64>
    %2 = stablehlo.maximum %1, %0 : tensor<10xf64>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<10xf64>) -> tensor<10x1xf64>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<10x1xf64>) -> tensor<10x7xf64>
    %5 = stablehlo.subtract %arg0, %4 : tensor<10x7xf64>
    %6 = stablehlo.exponential %5 : tensor<10x7xf64>
    %7 = stablehlo.reduce(%6 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<10x7xf64>, tensor<f64>) -> tensor<10xf64>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0] : (tensor<10xf64>) -> tensor<10x1xf64>
    %9 = stablehlo.log %8 : tensor<10x1xf64>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1] : (tensor<10x1xf64>) -> tensor<10x7xf64>
    %11 = stablehlo.subtract %5, %10 : tensor<10x7xf64>
    return %11 : tensor<10x7xf64>
  }
  func.func private @_where_3(%arg0: tensor<10xi1>, %arg1: tensor<10xi64>, %arg2: tensor<i64>) -> tensor<10xi64> {
    %0 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<i64>) -> tensor<10xi64>
    %1 = stablehlo.select %arg0, %arg1, %0 : tensor<10xi1>, tensor<10xi64>
    return %1 : tensor<10xi64>
  }
  func.func private @_where_4(%arg0: tensor<10xi1>, %arg1: tensor<10xf64>, %arg2: tensor<f64>) -> tensor<10xf64> {
    %0 = stablehlo.broadcast_in_dim %arg2, dims = [] : (tensor<f64>) -> tensor<10xf64>
    %1 = stablehlo.select %arg0, %arg1, %0 : tensor<10xi1>, tensor<10xf64>
    return %1 : tensor<10xf64>
  }
}
