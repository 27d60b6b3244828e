package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// cpuSeconds is the CPU time of a process in all its threads, to the nanosecond; not its children's.
func cpuSeconds(pid int) float64 {
	var used unix.Timespec
	// clock_getcpuclockid(3) computes the number of a process's clock like this.
	if err := unix.ClockGettime(int32(^pid<<3|2), &used); err != nil {
		fail(fmt.Errorf("-pid %d: %w", pid, err))
	}
	return time.Duration(used.Nano()).Seconds()
}

// residentBytes is the memory of a process that is in RAM.
func residentBytes(pid int) int64 {
	var all, resident int64
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err == nil {
		_, err = fmt.Sscan(string(text), &all, &resident)
	}
	if err != nil {
		fail(fmt.Errorf("-pid %d: %w", pid, err))
	}
	return resident * int64(os.Getpagesize())
}

// counted is the number a file holds at this moment.
func counted(name string) uint64 {
	number, err := os.ReadFile(name)
	if err == nil && len(number) != 8 {
		err = fmt.Errorf("%d bytes, not 8", len(number))
	}
	if err != nil {
		fail(fmt.Errorf("-scrapes %s: %w", name, err))
	}
	return binary.NativeEndian.Uint64(number)
}
