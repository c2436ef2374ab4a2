// A libcuda without cuGetProcAddress and with three entries: what a library looks like that stands
// in for the driver's and lacks most of it.
#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED unsigned cuDriverGetVersion(int* version) {
  *version = 12000;
  return 0;
}
EXPORTED unsigned cuInit(unsigned) { return 0; }
EXPORTED unsigned cuGetErrorName(unsigned, const char** name) {
  *name = "CUDA_SUCCESS";
  return 0;
}
