package identity

import (
	"context"
	"crypto/hmac"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	sentCodeLife  = 10 * time.Minute
	sentCodeTries = 5           // of one code
	sentCodeEvery = time.Minute // a further code of the same step-up
	sentCodesMost = 5           // of one person, before waits that grow: whoever knows the password must not fill a mailbox
)

// emailMethod is a code that comes by e-mail, to an address that is verified.
var emailMethod = stepUpMethod{
	name: "email", amr: stepUpWord,
	needs: func(s *Service) bool { return s.Notify != nil },
	level: func(u *config.Units) int {
		if !u.EmailNotifications.StepUpAuthentication {
			return 0
		}
		return u.StepUp.AuthenticationMethods.EmailAuthenticationLevel
	},
	has: func(tx storage.Tx, si *signedIn, _ *stepUpRecord) (bool, error) {
		to, err := stepUpAddress(tx, si)
		return to != "", err
	},
	to: func(tx storage.Tx, si *signedIn) (string, error) {
		to, err := stepUpAddress(tx, si)
		return maskEmail(to), err
	},
	send: func(s *Service, tx storage.Tx, si *signedIn, code string, now time.Time) error {
		t, err := stepUpOwner(tx, si)
		if err != nil {
			return err
		}
		n := t.notice(notify.StepUpCode, now)
		n.Data["code"] = code
		return s.send(tx, n)
	},
	check: checkSentCode("email"),
}

func stepUpOwner(tx storage.Tx, si *signedIn) (told, error) {
	rec, err := persons.Get(tx, si.session.PersonID)
	if err != nil {
		return told{}, err
	}
	prof, err := readProfile(tx, si.session.PersonID, &rec)
	return told{id: si.session.PersonID, rec: &rec, profile: &prof.Profile, verifiedOnly: true}, err
}

func stepUpAddress(tx storage.Tx, si *signedIn) (string, error) {
	t, err := stepUpOwner(tx, si)
	if err != nil {
		return "", err
	}
	return t.address(), nil
}

// maskEmail shows an address to who knows it already.
func maskEmail(address string) string {
	at := strings.LastIndexByte(address, '@')
	if at <= 0 {
		return ""
	}
	first := []rune(address[:at])[0]
	return string(first) + "•••" + address[at:]
}

// newSentCode returns six digits.
func newSentCode(random io.Reader) (string, error) {
	const most = 1<<32 - 1<<32%1_000_000 // above it the last ones would come more seldom
	for {
		var b [4]byte
		if _, err := io.ReadFull(random, b[:]); err != nil {
			return "", err
		}
		if n := uint64(binary.BigEndian.Uint32(b[:])); n < most {
			return fmt.Sprintf("%06d", n%1_000_000), nil
		}
	}
}

// sentCodeHash is keyed, since there are few codes, and bound to the step-up that it was sent for.
func sentCodeHash(key []byte, method, flow, session, code string) []byte {
	return secret.MAC(key, "step-up code", method, flow, session, code)
}

const sentCodePurpose = "step-up codes that were sent"

func sentCodeKey(method, flow string) string { return storage.Key(method, secret.Hash(flow)) }

// sendCode sends a new code for a step-up in place of the one before. wait is how long none is sent.
func (s *Service) sendCode(ctx context.Context, x steppingUp, m *stepUpMethod) (wait time.Duration, err error) {
	code, err := newSentCode(s.Random)
	if err != nil {
		return 0, err
	}
	now, person := s.Now(), x.si.session.PersonID
	err = s.Store.Update(ctx, func(tx storage.Tx) error {
		wait = 0
		last, err := sentCodes.Get(tx, sentCodeKey(m.name, x.id))
		if err != nil && !errors.Is(err, storage.ErrNotFound) {
			return err
		}
		if err == nil && last.Session == x.si.id {
			wait = last.SentAt.Add(sentCodeEvery).Sub(now)
		}
		c := counter{storage.Key("step-up-sent", person), sentCodesMost, false}
		sent, err := readFailures(tx, c, s.cfg.Lockout.Window, now)
		if err != nil {
			return err
		}
		if wait = max(wait, sent.Until.Sub(now)); wait > 0 {
			return nil
		}
		sent = s.fails(sent, c, now)
		if err := failures.Put(tx, c.key, sent, s.forgets(sent)); err != nil {
			return err
		}
		rec := sentCodeRecord{
			Session: x.si.id, Hash: sentCodeHash(s.Keyring.Derive(sentCodePurpose), m.name, x.id, x.si.id, code), SentAt: now, ExpiresAt: now.Add(sentCodeLife),
		}
		if err := sentCodes.Put(tx, sentCodeKey(m.name, x.id), rec, rec.ExpiresAt.Add(collectAfter)); err != nil {
			return err
		}
		return m.send(s, tx, x.si, code, now)
	})
	return wait, err
}

// waiting tells whether a code of this step-up is waited for.
func (s *Service) waiting(ctx context.Context, x steppingUp, m *stepUpMethod) (ok bool, err error) {
	err = s.Store.View(ctx, func(tx storage.Tx) error {
		rec, err := sentCodes.Get(tx, sentCodeKey(m.name, x.id))
		if errors.Is(err, storage.ErrNotFound) {
			ok = false
			return nil
		}
		ok = err == nil && rec.Session == x.si.id && rec.ExpiresAt.After(s.Now())
		return err
	})
	return ok, err
}

// handleSend serves the button that sends a code.
func (s *Service) handleSend(w http.ResponseWriter, r *http.Request, x steppingUp, m *stepUpMethod) {
	wait, err := s.sendCode(r.Context(), x, m)
	switch {
	case err != nil:
		s.fail(w, r, err, stepUpURL(x.id))
	case wait > 0:
		in := page.StepUp{Problem: "problem.sent", Wait: int((wait + time.Second - 1) / time.Second)}
		w.Header().Set("Retry-After", strconv.Itoa(in.Wait)) // RFC 6585 4
		s.stepUpPage(w, r, x, m, http.StatusTooManyRequests, in)
	default:
		s.redirect(w, r, stepUpURL(x.id)+"&method="+m.name)
	}
}

// checkSentCode checks a code that was sent, counting the try first.
func checkSentCode(method string) func(context.Context, *Service, *stepUpTry) (func(storage.Tx, *stepUpRecord) (bool, error), error) {
	return func(ctx context.Context, s *Service, t *stepUpTry) (func(storage.Tx, *stepUpRecord) (bool, error), error) {
		key, now := sentCodeKey(method, t.flow), s.Now()
		var rec sentCodeRecord
		err := s.Store.Update(ctx, func(tx storage.Tx) (err error) {
			if rec, err = sentCodes.Get(tx, key); err != nil {
				return err
			}
			if rec.Session != t.si.id || !rec.ExpiresAt.After(now) || rec.Tries >= sentCodeTries {
				return storage.ErrNotFound
			}
			rec.Tries++
			return sentCodes.Put(tx, key, rec, rec.ExpiresAt.Add(collectAfter))
		})
		if errors.Is(err, storage.ErrNotFound) {
			return nil, errMismatch
		}
		if err != nil {
			return nil, err
		}
		code := strings.ReplaceAll(strings.TrimSpace(t.code), " ", "")
		if !slices.ContainsFunc(s.Keyring.DeriveAll(sentCodePurpose), func(k []byte) bool {
			return hmac.Equal(rec.Hash, sentCodeHash(k, method, t.flow, t.si.id, code))
		}) {
			return nil, errMismatch
		}
		return func(tx storage.Tx, _ *stepUpRecord) (bool, error) {
			now, err := sentCodes.Get(tx, key)
			if errors.Is(err, storage.ErrNotFound) {
				return false, nil
			}
			if err != nil || !hmac.Equal(now.Hash, rec.Hash) {
				return false, err
			}
			return true, sentCodes.Delete(tx, key)
		}, nil
	}
}

func emailSection(_ *Service, _ storage.Tx, _ *signedIn, st *standing) (*page.SecuritySection, error) {
	if pick(st.has, emailMethod.name) == nil {
		return nil, nil //nolint:nilnil // switched off, or no address
	}
	return &page.SecuritySection{Key: emailMethod.name, State: "on"}, nil
}
