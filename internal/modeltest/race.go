//go:build race

package modeltest

// race reports whether the race detector watches.
const race = true
