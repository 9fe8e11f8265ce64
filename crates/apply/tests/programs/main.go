// Exits with 0 when the runtime counted as many processors as the first argument says, after making it start threads.
package main

import (
	"os"
	"runtime"
	"strconv"
	"sync"
)

func main() {
	var group sync.WaitGroup
	for i := 0; i < 8; i++ {
		group.Add(1)
		go func() {
			runtime.LockOSThread()
			runtime.Gosched()
			group.Done()
		}()
	}
	group.Wait()
	if strconv.Itoa(runtime.NumCPU()) != os.Args[1] {
		os.Exit(1)
	}
}
