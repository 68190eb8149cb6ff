package keystore_test

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"net/http"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/keystore"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// TestRotationOutlastsItsRequest: keys that were made are stored, also if the request ended while they were.
func TestRotationOutlastsItsRequest(t *testing.T) {
	t.Parallel()
	c, m := newCertificates(t), material()
	id := c.add(pairOf("sign", "EC", privateOf(m.ec), certOf(m.ec, c.now.AddDate(1, 0, 0))))
	ring, err := secret.NewKeyring(bytes.Repeat([]byte{7}, secret.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithCancel(t.Context())
	service, err := settings.New(t.Context(), settings.Config{}, settings.Deps{
		Store: c.store, Keyring: ring, Random: readerFunc(func(b []byte) (int, error) { leave(); return rand.Read(b) }),
	})
	if err != nil {
		t.Fatal(err)
	}
	if ctx.Err() != nil {
		t.Fatal("the service has used randomness before a key is made")
	}
	if err := service.KeyPairs().Rotate(ctx, id, keystore.Announce, audit.Actor{ID: "ops"}); err != nil || ctx.Err() == nil {
		t.Fatalf("Rotate, the request ends while a key is made: %v (%v)", err, ctx.Err())
	}
	if now, err := c.service.KeyPairs().Get(t.Context(), "sign"); err != nil || len(now.Others) != 1 {
		t.Errorf("after it the pair is %+v, %v", now, err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }

// TestRotation: the next keys is next to a pair until they take its place, and the former ones until they are retired;
// all of them are resealed with the encryption key, and other keys end the rotation.
func TestRotation(t *testing.T) {
	t.Parallel()
	c, m := newCertificates(t), material()
	by := audit.Actor{ID: "ops"}
	sign := pairOf("sign", "EC", privateOf(m.ec), certOf(m.ec, c.now.AddDate(1, 0, 0)))
	id := c.add(sign)
	partner := c.add(pairOf("partner", "CERTIFICATE", "", certOf(m.ec, c.now.AddDate(1, 0, 0))))
	pairs := c.service.KeyPairs()
	want := func(what string, is, want error) {
		t.Helper()
		if !errors.Is(is, want) || want == nil && is != nil {
			t.Errorf("%s = %v, want %v", what, is, want)
		}
	}
	get := func(s *keystore.Service, name string) *keystore.Material {
		t.Helper()
		found, err := s.Get(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	want("Switch before Announce", pairs.Rotate(t.Context(), id, keystore.Switch, by), keystore.ErrStage)
	want("Retire before Switch", pairs.Rotate(t.Context(), id, keystore.Retire, by), keystore.ErrStage)
	want("Announce of a certificate alone", pairs.Rotate(t.Context(), partner, keystore.Announce, by), keystore.ErrNoPrivateKey)
	want("Announce of an unknown pair", pairs.Rotate(t.Context(), "x", keystore.Announce, by), keystore.ErrUnknown)
	want("Announce", pairs.Rotate(t.Context(), id, keystore.Announce, by), nil)
	want("Announce twice", pairs.Rotate(t.Context(), id, keystore.Announce, by), keystore.ErrStage)
	now := get(pairs, "sign")
	if !m.ec.Equal(now.Key) || len(now.Others) != 1 || now.Others[0].Key == nil || m.ec.Equal(now.Others[0].Key) {
		t.Fatalf("after Announce: %d keys beside the first one", len(now.Others))
	}
	next := now.Others[0].Certificate
	if _, err := c.sealing(t.Context(), nil, 8, 7).Reseal(t.Context()); err != nil {
		t.Fatal(err)
	}
	pairs = c.sealing(t.Context(), nil, 8).KeyPairs()
	if resealed := get(pairs, "sign"); len(resealed.Others) != 1 || !resealed.Others[0].Certificate.Equal(next) ||
		resealed.Others[0].Key == nil {
		t.Error("the next keys were not sealed anew")
	}
	want("Switch", pairs.Rotate(t.Context(), id, keystore.Switch, by), nil)
	if now = get(pairs, "sign"); !now.Certificate.Equal(next) || len(now.Others) != 1 || !m.ec.Equal(now.Others[0].Key) {
		t.Fatal("after Switch the next keys are not used, or the former ones are gone")
	}
	want("Retire", pairs.Rotate(t.Context(), id, keystore.Retire, by), nil)
	if now = get(pairs, "sign"); !now.Certificate.Equal(next) || len(now.Others) != 0 {
		t.Error("after Retire the former keys are still there")
	}
	events := c.events()
	if len(events) < 5 {
		t.Errorf("events = %d, want one for each step", len(events))
	}
}

// TestRotationAcrossCertificates: the next and the former keys keep their form when the pair in use gets a certificate
// or loses it in the middle of a rotation.
func TestRotationAcrossCertificates(t *testing.T) {
	t.Parallel()
	m := material()
	for name, certified := range map[string]bool{"the certificate comes": false, "the certificate goes": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCertificates(t)
			public := map[bool]string{true: certOf(m.ec, c.now.AddDate(1, 0, 0)), false: publicOf(m.ec)}
			id := c.add(pairOf("sign", "EC", privateOf(m.ec), public[certified]))
			pairs, by := c.service.KeyPairs(), audit.Actor{ID: "ops"}
			want := func(what string, mine, theirs bool) {
				t.Helper()
				now, err := pairs.Get(t.Context(), "sign")
				if err != nil || len(now.Others) != 1 {
					t.Fatalf("%s: %+v, %v, want the pair and one next to it", what, now, err)
				}
				if other := now.Others[0]; (now.Certificate != nil) != mine || (other.Certificate != nil) != theirs || other.Key == nil {
					t.Errorf("%s: certificates = %t and %t, want %t and %t", what, now.Certificate != nil, other.Certificate != nil, mine, theirs)
				}
				is, err := pairs.Rotation(t.Context(), id)
				if err != nil {
					t.Fatal(err)
				}
				for kind, part := range map[bool]*keystore.PublicPart{mine: is.Current, theirs: cmp.Or(is.Next, is.Former)} {
					raw, _ := base64.StdEncoding.DecodeString(part.PublicKey)
					if bytes.Contains(raw, []byte("BEGIN CERTIFICATE")) != kind || part.NotAfter.IsZero() == kind {
						t.Errorf("%s: shown as %q until %v, want a certificate: %t", what, raw, part.NotAfter, kind)
					}
				}
			}
			if err := pairs.Rotate(t.Context(), id, keystore.Announce, by); err != nil {
				t.Fatal(err)
			}
			status, body := c.call(http.MethodPost, certificatePath+"/"+id, wrapped(pairOf("sign", "EC", "", public[!certified])))
			c.want("change of the public part", status, body, http.StatusOK)
			want("announced", !certified, certified)
			if err := pairs.Rotate(t.Context(), id, keystore.Switch, by); err != nil {
				t.Fatal(err)
			}
			want("switched", certified, !certified)
		})
	}
}
