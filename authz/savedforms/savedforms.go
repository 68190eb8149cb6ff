// Package savedforms keeps a POST that arrived after the session expired, encrypted, for ten minutes, so it can be
// replayed. (docs/decisions/gateway.md#kept-forms)
package savedforms

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// MaxBody is the largest body in bytes that is kept.
const MaxBody = 256 << 10

const (
	lifetime  = 10 * time.Minute
	perPerson = 5        // forms of one person at one site; the oldest gives way
	perSite   = 500      // forms at one site
	siteBytes = 32 << 20 // bytes of bodies at one site
)

var (
	// ErrGone says that there is no such form for this browser at this site: it was sent, has expired, or never was.
	ErrGone = errors.New("no such form")
	// ErrOther says that the form is another person's. It is deleted.
	ErrOther = errors.New("the form is another person's")
	// ErrFull says that the site has as many forms as are kept.
	ErrFull = errors.New("too many forms")
)

// Form is the form that is sent again.
type Form struct {
	Target      string // path and query
	ContentType string
	Referer     string // the page of the same site on which the form was filled in. Empty: unknown
	Body        []byte
}

// Key names a form to the browser that has sent it. Browser is the value of the site's cookie that binds it.
type Key struct{ Origin, Browser, ID string }

// Sites knows the person of a site's cookie, though the session may have ended.
type Sites interface {
	// Former returns the person of a cookie that the site has given, or "".
	Former(tx storage.Tx, origin, cookie string) (personID string, err error)
}

// Deps are the dependencies of the forms. All are required.
type Deps struct {
	Store   storage.Store
	Keyring *secret.Keyring
	Sites   Sites
	Now     func() time.Time
	Random  io.Reader
}

// Forms are the forms of all sites of a store. They are safe for concurrent use.
type Forms struct{ deps Deps }

// New returns the forms of a store. Several can share one.
func New(deps Deps) *Forms { return &Forms{deps} }

// Former returns the person whose session a site's cookie was, or "". A stranger has none, so nothing is kept for one.
func (f *Forms) Former(ctx context.Context, origin, cookie string) (personID string, err error) {
	err = f.deps.Store.View(ctx, func(tx storage.Tx) error {
		personID, err = f.deps.Sites.Former(tx, origin, cookie)
		return err
	})
	return personID, err
}

// Keep stores a form of a person for ten minutes and returns its id, or ErrFull.
func (f *Forms) Keep(ctx context.Context, origin, browser, personID string, form Form) (id string, err error) {
	if origin == "" || browser == "" || personID == "" || len(form.Body) > MaxBody {
		return "", errors.New("savedforms: a form needs a site, a browser, a person and a body of bounded size")
	}
	if id, err = secret.ID(f.deps.Random, 16); err != nil {
		return "", err
	}
	plain, err := json.Marshal(form)
	if err != nil {
		return "", err
	}
	key, now := storage.Key(origin, id), f.deps.Now().UTC()
	sealed, err := f.deps.Keyring.Seal(purpose(key), plain)
	if err != nil {
		return "", err
	}
	rec := formRecord{Browser: secret.Hash(browser), PersonID: personID, Size: len(form.Body), CreatedAt: now, ExpiresAt: now.Add(lifetime)}
	err = f.deps.Store.Update(ctx, func(tx storage.Tx) error {
		if err := makeRoom(tx, origin, &rec, now); err != nil {
			return err
		}
		if err := forms.Create(tx, key, rec, rec.ExpiresAt); err != nil {
			return err
		}
		return bodies.Create(tx, key, bodyRecord{sealed}, rec.ExpiresAt)
	})
	return id, err
}

func purpose(key string) string { return "authz_parked_body/" + key }

// makeRoom deletes what has expired at a site and the oldest form of a person who has too many, and returns ErrFull if
// the site has too many all the same.
func makeRoom(tx storage.Tx, origin string, wanted *formRecord, now time.Time) error {
	var own []storage.Entry[formRecord]
	var old []string
	count, size := 0, wanted.Size
	for e, err := range forms.Scan(tx, storage.Range{Prefix: storage.Prefix(origin)}) {
		if err != nil {
			return err
		}
		if !e.Value.ExpiresAt.After(now) {
			old = append(old, e.Key)
			continue
		}
		count, size = count+1, size+e.Value.Size
		if e.Value.PersonID == wanted.PersonID {
			own = append(own, e)
		}
	}
	if len(own) >= perPerson {
		oldest := own[0]
		for _, e := range own {
			if e.Value.CreatedAt.Before(oldest.Value.CreatedAt) {
				oldest = e
			}
		}
		old = append(old, oldest.Key)
		count, size = count-1, size-oldest.Value.Size
	}
	if count >= perSite || size > siteBytes {
		return ErrFull
	}
	for _, key := range old {
		if err := remove(tx, key); err != nil {
			return err
		}
	}
	return nil
}

func remove(tx storage.Tx, key string) error {
	if err := forms.Delete(tx, key); err != nil {
		return err
	}
	return bodies.Delete(tx, key)
}

// find returns the record of a form that this browser has sent to this site, or ErrGone.
func find(tx storage.Tx, k Key, now time.Time) (formRecord, error) {
	rec, found, err := forms.Find(tx, storage.Key(k.Origin, k.ID))
	if err == nil && (!found || !rec.ExpiresAt.After(now) || k.Browser == "" || !secret.New(rec.Browser).Equal(secret.Hash(k.Browser))) {
		err = ErrGone
	}
	return rec, err
}

// Check reports whether a form waits for a person: nil, ErrGone or ErrOther, which deletes it.
func (f *Forms) Check(ctx context.Context, k Key, personID string) error {
	now := f.deps.Now()
	var rec formRecord
	err := f.deps.Store.View(ctx, func(tx storage.Tx) (err error) {
		rec, err = find(tx, k, now)
		return err
	})
	if err != nil || rec.PersonID == personID {
		return err
	}
	if err := f.Drop(ctx, k); err != nil {
		return err
	}
	return ErrOther
}

// Take returns a form once: it is deleted before it is returned. target is where it is to go. Otherwise the error is
// ErrGone, or ErrOther, which deletes the form too.
func (f *Forms) Take(ctx context.Context, k Key, personID, target string) (Form, error) {
	now, key := f.deps.Now(), storage.Key(k.Origin, k.ID)
	var sealed []byte
	var verdict error
	err := f.deps.Store.Update(ctx, func(tx storage.Tx) error {
		sealed, verdict = nil, nil
		rec, err := find(tx, k, now)
		if err != nil {
			return err
		}
		body, _, err := bodies.Find(tx, key)
		if err != nil {
			return err
		}
		if sealed = body.Sealed; rec.PersonID != personID {
			verdict = ErrOther
		}
		return remove(tx, key)
	})
	if err = errors.Join(err, verdict); err != nil {
		return Form{}, err
	}
	plain, err := f.deps.Keyring.Open(purpose(key), sealed)
	if err != nil {
		return Form{}, fmt.Errorf("%w: %w", ErrGone, err)
	}
	var form Form
	if err := json.Unmarshal(plain, &form); err != nil {
		return Form{}, fmt.Errorf("%w: %w", ErrGone, err)
	}
	if form.Target != target {
		return Form{}, fmt.Errorf("%w: it goes elsewhere", ErrGone)
	}
	return form, nil
}

// Drop deletes a form that this browser has sent to this site, or returns ErrGone.
func (f *Forms) Drop(ctx context.Context, k Key) error {
	now := f.deps.Now()
	return f.deps.Store.Update(ctx, func(tx storage.Tx) error {
		if _, err := find(tx, k, now); err != nil {
			return err
		}
		return remove(tx, storage.Key(k.Origin, k.ID))
	})
}
