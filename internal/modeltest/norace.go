//go:build !race

package modeltest

const race = false
