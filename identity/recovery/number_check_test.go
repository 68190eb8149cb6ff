package recovery_test

import (
	"errors"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// isShown reports whether the first number of a person is verified.
func (x *texted) isShown(id string) bool {
	x.T.Helper()
	shown := false
	err := x.Store.View(x.T.Context(), func(tx storage.Tx) error {
		p, err := x.Person.Profile(tx, id)
		shown = err == nil && p.PhoneNumbers[0].Verified
		return err
	})
	if err != nil {
		x.T.Fatal(err)
	}
	return shown
}

func TestNumberCheck(t *testing.T) {
	t.Parallel()
	x := newTexted(t)
	uma := x.withNumber("uma@example.com", "+31 6 8765 4321", false)
	if _, err := x.Proof.SendNumberCode(t.Context(), uma.ID, "+31687654321", identitytest.Ops); !errors.Is(err, challenge.ErrTextsOff) {
		t.Errorf("SendNumberCode, switched off = %v", err)
	}
	x.u.Features.MobileNumberValidationBackendServicesEnabled = true
	for name, tt := range map[string]struct {
		id, number string
		want       error
	}{
		"nobody":            {"9b2f4a52-1f6e-4f0c-9c6d-0a2f5b7c8d9e", "+31687654321", person.ErrNoPerson},
		"a username":        {"uma@example.com", "+31687654321", person.ErrNoPerson},
		"another's number":  {uma.ID, tessNumber, new(person.ValidationError)},
		"a national number": {uma.ID, "06 87654321", new(person.ValidationError)},
	} {
		invalid := new(person.ValidationError)
		if _, err := x.Proof.SendNumberCode(t.Context(), tt.id, tt.number, identitytest.Ops); !errors.Is(err, tt.want) &&
			!(errors.As(tt.want, &invalid) && errors.As(err, &invalid)) {
			t.Errorf("SendNumberCode: %s = %v", name, err)
		}
	}
	if n := len(x.Texts.Take()); n != 0 {
		t.Fatalf("%d messages for what was refused", n)
	}
	until, err := x.Proof.SendNumberCode(t.Context(), uma.ID, "0031 6 87654321", identitytest.Ops)
	list := x.Texts.Take()
	if err != nil || len(list) != 1 || list[0].To != "+31687654321" || !until.Equal(x.Clock.Now().Add(10*time.Minute)) {
		t.Fatalf("SendNumberCode = %v, %v, messages %+v", until, err, list)
	}
	code := list[0].Data["code"]
	if _, err := x.Proof.SendNumberCode(t.Context(), uma.ID, "+31687654321", identitytest.Ops); !errors.As(err, new(*challenge.TooSoonError)) {
		t.Errorf("another code at once = %v, want to wait", err)
	}
	if err := x.Proof.VerifyNumber(t.Context(), uma.ID, "+31687654321", "12345x", identitytest.Ops); !errors.Is(err, challenge.ErrWrongCode) ||
		x.isShown(uma.ID) {
		t.Errorf("a wrong code = %v", err)
	}
	if err := x.Proof.VerifyNumber(t.Context(), uma.ID, "+31687654321", code, identitytest.Ops); err != nil || !x.isShown(uma.ID) {
		t.Errorf("the code = %v, verified: %t", err, x.isShown(uma.ID))
	}
	if err := x.Proof.VerifyNumber(t.Context(), uma.ID, "+31687654321", code, identitytest.Ops); !errors.Is(err, challenge.ErrWrongCode) {
		t.Errorf("the code twice = %v", err)
	}
	if n := x.Events()["person.PhoneNumberCodeSentEvent"]; n != 1 {
		t.Errorf("%d events, want 1", n)
	}
}

func TestNumberCheckAttacks(t *testing.T) {
	t.Parallel()
	sent := func(t *testing.T) (*texted, person.Person, string) {
		x := newTexted(t)
		x.u.Features.MobileNumberValidationBackendServicesEnabled = true
		uma := x.withNumber("uma@example.com", "+31687654321", false)
		if _, err := x.Proof.SendNumberCode(t.Context(), uma.ID, "+31687654321", identitytest.Ops); err != nil {
			t.Fatal(err)
		}
		return x, uma, x.Texts.Take()[0].Data["code"]
	}
	t.Run("attack 241: a code that another backend asked for", func(t *testing.T) {
		t.Parallel()
		x, uma, code := sent(t)
		if err := x.Proof.VerifyNumber(t.Context(), uma.ID, "+31687654321", code, audit.Actor{ID: "other"}); !errors.Is(err,
			challenge.ErrWrongCode) || x.isShown(uma.ID) {
			t.Errorf("VerifyNumber = %v", err)
		}
	})
	t.Run("attack 241: guessing the code", func(t *testing.T) {
		t.Parallel()
		x, uma, code := sent(t)
		for range 5 {
			if err := x.Proof.VerifyNumber(t.Context(), uma.ID, "+31687654321", "12345x", identitytest.Ops); !errors.Is(err,
				challenge.ErrWrongCode) {
				t.Fatal(err)
			}
		}
		if err := x.Proof.VerifyNumber(t.Context(), uma.ID, "+31687654321", code, identitytest.Ops); !errors.Is(err, challenge.ErrWrongCode) ||
			x.isShown(uma.ID) {
			t.Errorf("the right code after five wrong ones = %v", err)
		}
	})
	t.Run("attack 241: the code of a number that the person has no more", func(t *testing.T) {
		t.Parallel()
		x, uma, code := sent(t)
		_, err := x.Person.UpdatePerson(t.Context(), uma.ID, person.Edit{By: identitytest.Ops}, func(_ storage.Tx, d *person.Details) error {
			d.Profile.PhoneNumbers = []person.PhoneNumber{{Value: "+31600000000", Primary: true}}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := x.Proof.VerifyNumber(t.Context(), uma.ID, "+31687654321", code, identitytest.Ops); !errors.As(err,
			new(*person.ValidationError)) || x.isShown(uma.ID) {
			t.Errorf("VerifyNumber = %v", err)
		}
	})
}
