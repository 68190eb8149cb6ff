package mfa_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/mfa"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/storagetest"
)

// sealWith starts the service again with encryption keys, the first of which seals.
func sealWith(h *identitytest.Harness, keys ...byte) {
	h.T.Helper()
	var ring [][]byte
	for _, k := range keys {
		ring = append(ring, bytes.Repeat([]byte{k}, secret.KeySize))
	}
	var err error
	if h.Keyring, err = secret.NewKeyring(ring...); err != nil {
		h.T.Fatal(err)
	}
	h.Start()
}

// reseal seals everything again and returns what was done, and in how many parts.
func reseal(h *identitytest.Harness) (all mfa.Resealed, parts int) {
	h.T.Helper()
	for {
		part, err := h.StepUp.Reseal(h.T.Context(), all.Next)
		if err != nil {
			h.T.Fatal(err)
		}
		all.People, all.Sealed, all.Left, all.Next = all.People+part.People, all.Sealed+part.Sealed, all.Left+part.Left, part.Next
		if parts++; all.Next == "" {
			return all, parts
		}
	}
}

// TestStepUpAfterTheOldKeyIsGone: after the encryption key was replaced and everything resealed, the older key can be
// removed, and authenticator apps and PINs still work.
func TestStepUpAfterTheOldKeyIsGone(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewStepping(t, 3)
	sealWith(h, 1)
	b := h.Plain()
	app, _, _ := b.AddApp(identitytest.AuthenticatorPage)
	u.Features.PINEnabled = true
	b.SetPIN("827164")
	sealWith(h, 2, 1)
	if all, _ := reseal(h); all.People != 1 || all.Sealed != 2 || all.Left != 0 {
		t.Errorf("Reseal = %+v, want two secrets of one person", all)
	}
	if all, _ := reseal(h); all.Sealed != 0 || all.Left != 0 {
		t.Errorf("Reseal again = %+v, want nothing to do", all)
	}
	sealWith(h, 2)
	h.Clock.Advance(time.Minute)
	other := h.Plain()
	page := other.Get(other.Get("/next").URL + "&method=authenticator")
	if a := other.Post(page, "code", h.Code(app)); a.Code != http.StatusSeeOther {
		t.Errorf("the code of the app by the newer key alone = %d\n%s", a.Code, a.Body)
	}
	u.Features.GoogleAuthenticatorStepUpAuthenticationEnabled = false
	u.StepUp.AuthenticationMethods.PINAuthenticationLevel = 3
	other = h.Plain()
	if a := other.Post(other.Get("/next"), "code", "827164"); a.Code != http.StatusSeeOther {
		t.Errorf("the PIN by the newer key alone = %d\n%s", a.Code, a.Body)
	}
}

// TestResealInParts: however many people there are, one call looks at a bounded number, and what no key opens is
// counted and left alone.
func TestResealInParts(t *testing.T) {
	t.Parallel()
	h, _ := identitytest.NewStepping(t, 3)
	sealWith(h, 1)
	h.Plain().AddApp(identitytest.AuthenticatorPage)
	var raw []byte
	for key, value := range h.Dump() {
		if len(key) > len(stepUpKey) && key[:len(stepUpKey)] == stepUpKey {
			raw = []byte(value)
		}
	}
	const people = 450
	err := h.Store.Update(t.Context(), func(tx storage.Tx) error {
		for n := range people { // sealed for another person, so no key opens them
			if err := tx.Put(fmt.Appendf(nil, "%sperson-%d", stepUpKey, n), raw, time.Time{}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	sealWith(h, 2, 1)
	if all, parts := reseal(h); all.People != people+1 || all.Sealed != 1 || all.Left != people || parts < 3 {
		t.Errorf("Reseal = %+v in %d parts, want %d people in at least 3, and 1 secret", all, parts, people+1)
	}
}

// TestPausedNodeResealsNothing: a node that was paused, and whose term is over, seals nothing: its first key can be one
// that was removed meanwhile.
func TestPausedNodeResealsNothing(t *testing.T) {
	t.Parallel()
	h, _ := identitytest.NewStepping(t, 3)
	sealWith(h, 1)
	h.Plain().AddApp(identitytest.AuthenticatorPage)
	sealWith(h, 2, 1)
	storagetest.RefusedWhenOver(t, h.Store, func(ctx context.Context) error {
		_, err := h.StepUp.Reseal(ctx, "")
		return err
	})
}
