"""What kernels are made with: compiled functions kept on disk, arrays of records, a heap."""
