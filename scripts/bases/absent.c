/* Stands in for NVIDIA's driver (-DDRIVER), or for the half of torch that its CPU build lacks, so that vLLM's compiled
   code can be loaded without either. Whatever is called fails; nothing here calls it. */
#define FAILS(name) int name(void) { return 100; } /* CUDA_ERROR_NO_DEVICE */
#ifdef DRIVER
FAILS(cuGetProcAddress_v2)
FAILS(cuPointerGetAttribute)
FAILS(cuTensorMapEncodeTiled)
#else
FAILS(aoti_torch_get_current_cuda_stream)
FAILS(cublasHgemm)
FAILS(torch_c10_cuda_check_msg)
FAILS(torch_c10_cuda_free_error_msg)
FAILS(torch_get_current_cuda_blas_handle)
#endif
