package providerhttp

import (
	"strings"
	"testing"
)

func TestPageInPlaceOfObject(t *testing.T) {
	t.Parallel()
	if _, err := ReadObject([]byte("<!DOCTYPE html><title>Sign in</title>")); err == nil || !strings.Contains(err.Error(), "HTML page") {
		t.Errorf("ReadObject of a page = %v, want it called an HTML page", err)
	}
}

func TestNestedTooDeep(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]bool{maxDepth: true, maxDepth + 2: false} {
		raw := strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n)
		if _, err := ReadObject([]byte(raw)); (err == nil) != want {
			t.Errorf("ReadObject of %d objects in each other = %v, want taken: %t", n, err, want)
		}
	}
}
