//go:build !supply

package main

import "testing"

// TestSupplyStamp fails when dependencies have changed and no one has run the tests of the supply chain since.
func TestSupplyStamp(t *testing.T) {
	t.Parallel()
	want, err := stamp()
	if err != nil {
		t.Fatal(err)
	}
	if text(t, stampFile) != want {
		t.Errorf("%s is not of these %v: run `make supply`", stampFile, stamped)
	}
}
