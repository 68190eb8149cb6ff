package token

import (
	"bytes"
	"crypto/rand"
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage/badgerstore"
)

// TestPairwiseKeyOutlivesEncryptionKeys holds that pairwise subjects stay when the encryption key is replaced.
func TestPairwiseKeyOutlivesEncryptionKeys(t *testing.T) {
	t.Parallel()
	store, err := badgerstore.OpenMemory()
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	first, second := bytes.Repeat([]byte{1}, secret.KeySize), bytes.Repeat([]byte{2}, secret.KeySize)
	load := func(keys ...[]byte) ([]byte, error) {
		ring, err := secret.NewKeyring(keys...)
		if err != nil {
			t.Fatal(err)
		}
		return loadPairwise(t.Context(), store, ring, rand.Reader)
	}
	was, err := load(first)
	if err != nil {
		t.Fatal(err)
	}
	if is, err := load(first); err != nil || !bytes.Equal(is, was) {
		t.Errorf("the same: %v, another key", err)
	}
	if _, err := load(second); err == nil {
		t.Error("opened by an encryption key that did not seal it")
	}
	if is, err := load(second, first); err != nil || !bytes.Equal(is, was) {
		t.Errorf("both: %v, another key", err)
	}
	if is, err := load(first); err != nil || !bytes.Equal(is, was) {
		t.Errorf("back to the old one alone: %v, another key", err)
	}
	if is, err := load(second); err != nil || !bytes.Equal(is, was) {
		t.Errorf("the new one alone: %v, another key", err)
	}
}
