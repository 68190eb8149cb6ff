package config

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
	"unicode/utf8"

	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/rest"
	"github.com/gatehouse-id/gatehouse/storage"
)

// newPair is a key pair that was judged and sealed, before the transaction that stores it.
type newPair struct {
	path   string // of the member in the body, for errors
	id     string // of what it takes the place of, or its own
	adds   bool   // id is a new one
	parsed *parsedPair
	record keyPairRecord
	event  event.Event
}

// preparePair judges a key pair. id is that of the one that it takes the place of; "" adds one, under an id of ours or that of the pair itself.
func (s *Service) preparePair(path, id string, in KeyPair, by Actor) (*newPair, error) {
	if err := checkKeyName(in.Name); err != nil {
		return nil, rest.Invalid(rest.Problem{Path: path + ".name", Problem: err.Error()})
	}
	parsed, wrong := parsePair(in.KeyType, in.PrivateKey.Reveal(), in.PublicKey, s.Now())
	if wrong != nil {
		return nil, rest.Invalid(rest.Problem{Path: path + "." + wrong.Member, Problem: wrong.Problem})
	}
	n := &newPair{path: path, id: id, adds: id == "", parsed: parsed}
	if n.adds {
		n.id = in.ID
	}
	if n.id == "" {
		var err error
		if n.id, err = s.newID(); err != nil {
			return nil, err
		}
	}
	return n, s.sealPair(n, in.Name, by)
}

// sealPair makes the record and the event of a pair whose id is known.
func (s *Service) sealPair(n *newPair, name string, by Actor) (err error) {
	n.record = keyPairRecord{Name: name, Type: n.parsed.kind, Public: n.parsed.public, Certificate: n.parsed.certificate != nil}
	if n.parsed.certificate != nil {
		n.record.NotAfter = n.parsed.certificate.NotAfter
	}
	if n.parsed.private != nil {
		if n.record.Private, err = s.Keyring.Seal(keyPurpose(n.id), n.parsed.private); err != nil {
			return err
		}
	}
	kind := certificateUpdated
	if n.adds {
		kind = certificateAdded
	}
	if n.event, err = s.newEvent(kind, by); err != nil {
		return err
	}
	n.event.Reason = name
	return nil
}

func checkKeyName(name string) error {
	switch {
	case name == "":
		return errors.New("is missing")
	case utf8.RuneCountInString(name) > maxKeyName || !utf8.ValidString(name):
		return fmt.Errorf("must have at most %d characters", maxKeyName)
	case isUUID(name):
		return errors.New("must not have the form of an id")
	}
	for _, c := range name {
		if c < ' ' || (c >= 0x7f && c < 0xa0) {
			return errors.New("must not have control characters")
		}
	}
	return nil
}

// putPair stores a prepared pair and tells whether that changes anything. What is refused undoes the transaction.
func (s *Service) putPair(tx storage.Tx, n *newPair) (changed bool, err error) {
	if n.adds {
		return true, s.createPair(tx, n)
	}
	old, err := keyPairs.Get(tx, n.id)
	if errors.Is(err, storage.ErrNotFound) {
		return false, rest.NotFound()
	}
	if err != nil {
		return false, err
	}
	rec := n.record
	if rec.Private, err = s.keptPrivate(n, old); err != nil || rec.same(old) {
		return false, err
	}
	if rec.Name != old.Name || len(rec.Private) == 0 && len(old.Private) > 0 {
		if err := s.unused(tx, n.id, old.Name); err != nil {
			return false, err
		}
	}
	if rec.Name != old.Name {
		if err := claimKeyName(tx, n, rec.Name); err != nil {
			return false, err
		}
		if err := keyNames.Delete(tx, old.Name); err != nil {
			return false, err
		}
	}
	if err := keyPairs.Put(tx, n.id, rec, time.Time{}); err != nil {
		return false, err
	}
	return true, s.Events.Append(tx, n.event)
}

// keptPrivate returns the sealed private key that is stored from now on: the old one where none or the same one was given, which must belong to the
// public key.
func (s *Service) keptPrivate(n *newPair, old keyPairRecord) ([]byte, error) {
	if len(old.Private) == 0 || n.record.Type == KeyCertificate {
		return n.record.Private, nil
	}
	m, err := s.open(n.id, old)
	if err != nil {
		return nil, err
	}
	switch {
	case n.parsed.signer == nil && !n.parsed.matches(m.Key):
		return nil, rest.Invalid(rest.Problem{Path: n.path + ".public_key", Problem: "does not belong to the private key that is stored"})
	case n.parsed.matches(m.Key):
		return old.Private, nil
	}
	return n.record.Private, nil
}

func (s *Service) createPair(tx storage.Tx, n *newPair) error {
	count := 0
	for _, err := range keyNames.Scan(tx, storage.Range{Limit: maxKeyPairs}) {
		if err != nil {
			return err
		}
		count++
	}
	if count >= maxKeyPairs {
		return rest.Invalid(rest.Problem{Path: n.path, Problem: fmt.Sprintf("there are %d key pairs already", maxKeyPairs)})
	}
	if err := claimKeyName(tx, n, n.record.Name); err != nil {
		return err
	}
	err := keyPairs.Create(tx, n.id, n.record, time.Time{})
	if errors.Is(err, storage.ErrExists) {
		return &rest.Error{Status: http.StatusConflict, Message: n.path + ".id: another key pair has this id"}
	}
	if err != nil {
		return err
	}
	return s.Events.Append(tx, n.event)
}

// claimKeyName: a name leads to one pair.
func claimKeyName(tx storage.Tx, n *newPair, name string) error {
	err := keyNames.Create(tx, name, n.id, time.Time{})
	if errors.Is(err, storage.ErrExists) {
		return &rest.Error{Status: http.StatusConflict, Message: n.path + ".name: another key pair has this name"}
	}
	return err
}

// same tells whether two records say the same.
func (r keyPairRecord) same(o keyPairRecord) bool {
	return r.Name == o.Name && r.Type == o.Type && r.Certificate == o.Certificate && bytes.Equal(r.Public, o.Public) && bytes.Equal(r.Private, o.Private)
}

// deletePair removes a pair that nobody uses.
func (s *Service) deletePair(tx storage.Tx, id string, e event.Event, nonce []byte) error {
	old, err := keyPairs.Get(tx, id)
	if errors.Is(err, storage.ErrNotFound) {
		return rest.NotFound()
	}
	if err != nil {
		return err
	}
	if err := s.unused(tx, id, old.Name); err != nil {
		return err
	}
	if err := keyNames.Delete(tx, old.Name); err != nil {
		return err
	}
	if err := keyPairs.Delete(tx, id); err != nil {
		return err
	}
	e.Reason = old.Name
	if _, err := touch(tx, nonce); err != nil {
		return err
	}
	return s.Events.Append(tx, e)
}

// by is the API client of a request.
func (s *Service) by(r *http.Request, client string) Actor { return Actor{client, s.Origin(r)} }

// newEvent makes an event, before the transaction that appends it.
func (s *Service) newEvent(kind event.Type, by Actor) (event.Event, error) {
	e, err := s.Events.New(kind, by.Origin)
	e.Actor, e.AgentUser = by.ID, by.ID
	return e, err
}

// keyPairChange is several key pairs that are stored together.
type keyPairChange struct {
	s     *Service
	pairs []*newPair
	nonce []byte // of the version that they make
}

// change is the one that stores a single key pair.
func (s *Service) change(n *newPair) (*keyPairChange, error) {
	nonce, err := s.nonce()
	return &keyPairChange{s, []*newPair{n}, nonce}, err
}

// prepareKeyPairs judges key pairs, of which those with the id, or without one the name, of a stored one take its place. Others are added, under
// their id where they have one, so that what is exported can be imported elsewhere. path is that of their array in the body.
func (s *Service) prepareKeyPairs(ctx context.Context, path string, in []KeyPair, by Actor) (*keyPairChange, error) {
	if len(in) > maxKeyPairs {
		return nil, rest.Invalid(rest.Problem{Path: path, Problem: fmt.Sprintf("has more than %d key pairs", maxKeyPairs)})
	}
	nonce, err := s.nonce()
	if err != nil {
		return nil, err
	}
	change := &keyPairChange{s: s, nonce: nonce}
	known, seen := make([]string, len(in)), map[string]bool{}
	err = s.Store.View(ctx, func(tx storage.Tx) error {
		for i, k := range in {
			wanted := k.ID
			if wanted == "" {
				wanted = k.Name
			}
			id, _, err := findPair(tx, wanted)
			if err != nil && !errors.Is(err, storage.ErrNotFound) {
				return err
			}
			if known[i] = id; err != nil {
				known[i] = ""
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, k := range in {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case k.ID != "" && !isUUID(k.ID):
			return nil, rest.Invalid(rest.Problem{Path: at + ".id", Problem: "is not a UUID"})
		case seen[k.Name] || k.ID != "" && seen[k.ID] || known[i] != "" && seen[known[i]]:
			return nil, rest.Invalid(rest.Problem{Path: at, Problem: "is there twice"})
		}
		seen[k.Name], seen[k.ID], seen[known[i]] = true, true, true
		n, err := s.preparePair(at, known[i], k, by)
		if err != nil {
			return nil, err
		}
		change.pairs = append(change.pairs, n)
	}
	return change, nil
}

// apply stores all of them or, with an error, none. The version comes last: what is asked of the units before is that of the old one.
func (c *keyPairChange) apply(tx storage.Tx) error {
	some := false
	for _, n := range c.pairs {
		changed, err := c.s.putPair(tx, n)
		if err != nil {
			return err
		}
		some = some || changed
	}
	if !some {
		return nil
	}
	_, err := touch(tx, c.nonce) // whoever has something of key pairs in memory reads it again
	return err
}

func (c *keyPairChange) ids() []string {
	out := make([]string, len(c.pairs))
	for i, n := range c.pairs {
		out[i] = n.id
	}
	return out
}
