// Goroutines that exchange over channels and a lock, garbage collected meanwhile: prints a sum that any order gives.
package main

import (
	"fmt"
	"sync"
)

const (
	workers    = 8
	blocks     = 2000
	blockWords = 512
)

func main() {
	work, sums := make(chan []uint64, 4), make(chan uint64)
	var lock sync.Mutex
	kinds := map[uint64]int{}
	for worker := 0; worker < workers; worker++ {
		go func() {
			var sum uint64
			for block := range work {
				for _, value := range block {
					sum += value * value
				}
				lock.Lock()
				kinds[block[0]%7]++
				lock.Unlock()
			}
			sums <- sum
		}()
	}
	for number := uint64(0); number < blocks; number++ {
		block := make([]uint64, blockWords)
		for word := range block {
			block[word] = number*31 + uint64(word)
		}
		work <- block
	}
	close(work)
	var total uint64
	for worker := 0; worker < workers; worker++ {
		total += <-sums
	}
	fmt.Println(total, kinds)
}
