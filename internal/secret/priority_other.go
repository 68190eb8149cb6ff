//go:build !linux

package secret

// onLowThread runs work. Only Linux has priorities of single threads.
func onLowThread(work func()) { work() }
