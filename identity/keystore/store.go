package keystore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/coded"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/storage"
)

// candidate is a key pair that was checked and sealed before the transaction that stores it.
type candidate struct {
	path    string // of the member in the body, for errors
	id      string // of the pair that it replaces, or its own
	adds    bool   // id is a new one
	parsed  *parsedPair
	expired bool // its certificate has
	record  record
	event   audit.Event
}

// prepareOne checks a key pair. id is that of the pair that it replaces; "" adds one, under its own id if it has one
// and a new id otherwise.
func (s *Service) prepareOne(path, id string, in KeyPair, by audit.Actor) (*candidate, error) {
	if err := checkName(in.Name); err != nil {
		return nil, invalid(path+".name", err)
	}
	parsed, wrong := parsePair(in.KeyType, in.PrivateKey.Reveal(), in.PublicKey)
	if wrong != nil {
		return nil, invalid(path+"."+wrong.Member, wrong.Problem)
	}
	n := &candidate{path: path, id: id, adds: id == "", parsed: parsed}
	if n.adds {
		n.id = in.ID
		if parsed.kind == Keytab && parsed.private == nil {
			return nil, invalid(path+".private_key", coded.New("keytab_missing", "is missing: want the keytab in Base64"))
		}
	}
	if n.id == "" {
		var err error
		if n.id, err = s.newID(); err != nil {
			return nil, err
		}
	}
	return n, s.seal(n, in.Name, by)
}

// seal makes the record and the event of a pair whose id is known.
func (s *Service) seal(n *candidate, name string, by audit.Actor) (err error) {
	n.record = record{Name: name, Type: n.parsed.kind, Public: n.parsed.public, Certificate: n.parsed.certificate != nil}
	if n.parsed.certificate != nil {
		n.record.NotAfter = n.parsed.certificate.NotAfter
		n.expired = !n.record.NotAfter.After(s.now())
	}
	if n.parsed.private != nil {
		if n.record.Private, err = s.keyring.Seal(sealPurpose(n.id), n.parsed.private); err != nil {
			return err
		}
	}
	kind := certificateUpdated
	if n.adds {
		kind = certificateAdded
	}
	if n.event, err = s.events.By(kind, by); err != nil {
		return err
	}
	n.event.Reason = name
	return nil
}

func (n *candidate) errExpired() error {
	return invalid(n.path+".public_key", coded.New("certificate_expired", "the certificate has expired"))
}

func checkName(name string) error {
	switch {
	case name == "":
		return coded.New("required", "is missing")
	case utf8.RuneCountInString(name) > maxKeyName || !utf8.ValidString(name):
		return coded.Errorf("length", "max", "must have at most %d characters", maxKeyName)
	case isID(name):
		return coded.New("name_of_id", "must not have the form of an id")
	}
	for _, c := range name {
		if c < ' ' || (c >= 0x7f && c < 0xa0) {
			return coded.New("control", "must not have control characters")
		}
	}
	return nil
}

// put stores a prepared pair and reports whether that changes anything. old is the stored pair that it replaces. A
// refusal undoes the transaction.
func (s *Service) put(tx storage.Tx, n *candidate) (old record, changed bool, err error) {
	if n.adds {
		return old, true, s.create(tx, n)
	}
	old, rec, err := s.replacement(tx, n)
	if err != nil || rec.same(old) {
		return old, false, err
	}
	if rec.Name != old.Name || len(rec.Private) == 0 && len(old.Private) > 0 {
		if err := s.checkUnused(tx, n.id, old.Name); err != nil {
			return old, false, err
		}
	}
	if rec.Name != old.Name {
		if err := claimName(tx, n, rec.Name); err != nil {
			return old, false, err
		}
		if err := keyNames.Delete(tx, old.Name); err != nil {
			return old, false, err
		}
	}
	if err := keyPairs.Put(tx, n.id, rec, time.Time{}); err != nil {
		return old, false, err
	}
	return old, true, s.events.Append(tx, n.event)
}

// replacement returns the stored pair that a prepared one replaces, and what takes its place.
func (s *Service) replacement(tx storage.Tx, n *candidate) (old, rec record, err error) {
	old, err = keyPairs.Get(tx, n.id)
	if errors.Is(err, storage.ErrNotFound) {
		return old, rec, jsonapi.NotFound()
	}
	if err != nil {
		return old, rec, err
	}
	rec = n.record
	if (rec.Type == Keytab) != (old.Type == Keytab) {
		return old, rec, invalid(n.path+".key_type",
			coded.New("keytab_change", "cannot become a KEYTAB, or cease to be one: add another key pair"))
	}
	if n.expired && !bytes.Equal(rec.Public, old.Public) {
		return old, rec, n.errExpired()
	}
	if rec.Private, err = s.keptPrivate(n, old); err != nil {
		return old, rec, err
	}
	if bytes.Equal(rec.Private, old.Private) { // other keys end the rotation of these
		rec.Next, rec.Former = old.Next, old.Former
	}
	return old, rec, nil
}

// keptPrivate returns the sealed private key to store. That is the stored one where none or the same one was given; it
// must belong to the public key.
func (s *Service) keptPrivate(n *candidate, old record) ([]byte, error) {
	if len(old.Private) == 0 || n.record.Type == Certificate {
		return n.record.Private, nil
	}
	m, err := s.open(n.id, old)
	if err != nil {
		return nil, err
	}
	if n.record.Type == Keytab {
		if n.parsed.private == nil || string(n.parsed.private) == m.Keytab.Reveal() {
			return old.Private, nil
		}
		return n.record.Private, nil
	}
	switch {
	case n.parsed.signer == nil && !n.parsed.matches(m.Key):
		return nil, invalid(n.path+".public_key", coded.New("key_mismatch", "does not belong to the private key that is stored"))
	case n.parsed.matches(m.Key):
		return old.Private, nil
	}
	return n.record.Private, nil
}

func (s *Service) create(tx storage.Tx, n *candidate) error {
	count := 0
	for _, err := range keyNames.Scan(tx, storage.Range{Limit: maxKeyPairs}) {
		if err != nil {
			return err
		}
		count++
	}
	if count >= maxKeyPairs {
		return invalid(n.path, coded.Errorf("key_pairs_full", "max", "there are %d key pairs already", maxKeyPairs))
	}
	if by := ask(s.signers, n.id, n.record.Name); (len(n.record.Private) == 0 || n.record.Type == Keytab) && len(by) > 0 {
		return invalid(n.path+".private_key", coded.Errorf("private_key_used", "places",
			"is missing: the Caddyfile signs or decrypts with this key pair (%s)", strings.Join(by, ", ")))
	}
	if err := claimName(tx, n, n.record.Name); err != nil {
		return err
	}
	err := keyPairs.Create(tx, n.id, n.record, time.Time{})
	if errors.Is(err, storage.ErrExists) {
		return conflict(n.path+".id: another key pair has this id", coded.New("key_pair_id_taken", "another key pair has this id"))
	}
	if err != nil {
		return err
	}
	return s.events.Append(tx, n.event)
}

// claimName: a name leads to one pair.
func claimName(tx storage.Tx, n *candidate, name string) error {
	err := keyNames.Create(tx, name, n.id, time.Time{})
	if errors.Is(err, storage.ErrExists) {
		return conflict(n.path+".name: another key pair has this name",
			coded.Errorf("key_pair_taken", "name", "another key pair has the name %s", name))
	}
	return err
}

// delete removes a pair that is not in use.
func (s *Service) delete(tx storage.Tx, id string, e audit.Event, finish Finish) error {
	old, err := keyPairs.Get(tx, id)
	if errors.Is(err, storage.ErrNotFound) {
		return jsonapi.NotFound()
	}
	if err != nil {
		return err
	}
	if err := s.checkUnused(tx, id, old.Name); err != nil {
		return err
	}
	if err := keyNames.Delete(tx, old.Name); err != nil {
		return err
	}
	if err := keyPairs.Delete(tx, id); err != nil {
		return err
	}
	e.Reason = old.Name
	if err := finish(tx); err != nil {
		return err
	}
	return s.events.Append(tx, e)
}

// by is the API client of a request.
func (s *Service) by(r *http.Request, client string) audit.Actor {
	return audit.Actor{ID: client, Origin: s.origin(r)}
}

// Change is several key pairs that were checked and are stored together.
type Change struct {
	s      *Service
	pairs  []*candidate
	finish Finish
}

func (s *Service) newChange(ctx context.Context, by audit.Actor, pairs ...*candidate) (*Change, error) {
	finish, err := s.owner.Change(ctx, by)
	return &Change{s, pairs, finish}, err
}

// Prepare checks the key pairs of a whole configuration. One with the id of a stored pair replaces it; so does one
// without an id that has the name of a stored pair. Others are added, under their id where they have one, so an export
// can be imported elsewhere: also if their certificates have expired meanwhile, which ReportExpiries tells. path is
// that of their array in the body.
func (s *Service) Prepare(ctx context.Context, path string, in []KeyPair, by audit.Actor) (*Change, error) {
	if len(in) > maxKeyPairs {
		return nil, invalid(path, coded.Errorf("entries", "max", "has more than %d key pairs", maxKeyPairs))
	}
	replaced, err := s.replaced(ctx, in)
	if err != nil {
		return nil, err
	}
	var pairs []*candidate
	seen := map[string]bool{}
	for i, k := range in {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case k.ID != "" && !isID(k.ID):
			return nil, invalid(at+".id", coded.New("not_uuid", "is not a UUID"))
		case seen[k.Name] || k.ID != "" && seen[k.ID] || replaced[i] != "" && seen[replaced[i]]:
			return nil, invalid(at, coded.New("twice", "is there twice"))
		}
		seen[k.Name], seen[k.ID], seen[replaced[i]] = true, true, true
		n, err := s.prepareOne(at, replaced[i], k, by)
		if err != nil {
			return nil, err
		}
		pairs = append(pairs, n)
	}
	return s.newChange(ctx, by, pairs...)
}

// refuseExpired refuses to add a certificate that has expired.
func (c *Change) refuseExpired() error {
	for _, n := range c.pairs {
		if n.adds && n.expired {
			return n.errExpired()
		}
	}
	return nil
}

// replaced returns for each key pair the id of the stored one that it replaces, "" for a new one.
func (s *Service) replaced(ctx context.Context, in []KeyPair) ([]string, error) {
	ids := make([]string, len(in))
	err := s.store.View(ctx, func(tx storage.Tx) error {
		for i, k := range in {
			id, _, err := find(tx, cmp.Or(k.ID, k.Name))
			switch {
			case err == nil:
				ids[i] = id
			case errors.Is(err, storage.ErrNotFound):
				ids[i] = ""
			default:
				return err
			}
		}
		return nil
	})
	return ids, err
}

// Apply stores all of them or, with an error, none. The new version is written last, so what asks for users of a key
// pair reads the configuration as it was before.
func (c *Change) Apply(tx storage.Tx) error {
	changed := false
	var replaced []Named
	for _, n := range c.pairs {
		old, one, err := c.s.put(tx, n)
		if err != nil {
			return err
		}
		changed = changed || one
		if one && !n.adds {
			replaced = append(replaced, Named{n.id, old.Name})
		}
	}
	if !changed {
		return nil
	}
	return c.finish(tx, replaced...)
}

// Difference is a key pair before and after a Change. The private parts are in neither. From is nil for a new pair.
type Difference struct {
	From *KeyPair
	To   KeyPair
}

// Differences returns what Apply would change in tx.
func (c *Change) Differences(tx storage.Tx) (out []Difference, err error) {
	for _, n := range c.pairs {
		if n.adds {
			out = append(out, Difference{To: n.record.answer(n.id)})
			continue
		}
		old, rec, err := c.s.replacement(tx, n)
		if err != nil {
			return nil, err
		}
		if !rec.same(old) {
			from := old.answer(n.id)
			out = append(out, Difference{&from, rec.answer(n.id)})
		}
	}
	return out, nil
}

func (c *Change) ids() []string {
	out := make([]string, len(c.pairs))
	for i, n := range c.pairs {
		out[i] = n.id
	}
	return out
}
