! A ring in Fortran (module mpi_f08): each rank sends to the next one 3 messages of 10 double precision numbers, one
! of 50 integers without waiting, 2 of 4 bytes by a persistent request, and puts 5 integers there.
program ring
  use mpi_f08
  implicit none

  integer :: rank, ranks, error, next, last, i
  integer(kind=MPI_ADDRESS_KIND) :: bytes
  type(MPI_Win) :: window
  double precision :: out(10), in(10), total
  integer :: numbers(50), received(50), one, other
  type(MPI_Status) status
  type(MPI_Request) request
  out = 1
  numbers = 2
  one = 3
  call MPI_INIT(error)
  call MPI_COMM_RANK(MPI_COMM_WORLD, rank, error)
  call MPI_COMM_SIZE(MPI_COMM_WORLD, ranks, error)
  next = modulo(rank + 1, ranks)
  last = modulo(rank - 1, ranks)
  do i = 1, 3
    call MPI_SENDRECV(out, 10, MPI_DOUBLE_PRECISION, next, 1, in, 10, MPI_DOUBLE_PRECISION, last, 1, &
                      MPI_COMM_WORLD, status, error)
  end do
  call MPI_ISEND(numbers, 50, MPI_INTEGER, next, 2, MPI_COMM_WORLD, request, error)
  call MPI_RECV(received, 50, MPI_INTEGER, last, 2, MPI_COMM_WORLD, status, error)
  call MPI_WAIT(request, status, error)
  call MPI_SEND_INIT(one, 1, MPI_INTEGER, next, 3, MPI_COMM_WORLD, request, error)
  do i = 1, 2
    call MPI_START(request, error)
    call MPI_RECV(other, 1, MPI_INTEGER, last, 3, MPI_COMM_WORLD, status, error)
    call MPI_WAIT(request, status, error)
  end do
  call MPI_REQUEST_FREE(request, error)
  bytes = 200
  call MPI_WIN_CREATE(received, bytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, window, error)
  call MPI_WIN_FENCE(0, window, error)
  bytes = 0
  call MPI_PUT(numbers, 5, MPI_INTEGER, next, bytes, 5, MPI_INTEGER, window, error)
  call MPI_WIN_FENCE(0, window, error)
  call MPI_WIN_FREE(window, error)
  total = in(1)
  if (total /= 1 .or. other /= 3) call MPI_ABORT(MPI_COMM_WORLD, 1, error)
  call MPI_FINALIZE(error)
end program ring
