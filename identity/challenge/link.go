package challenge

import (
	"errors"
	"net/url"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// LinkKind is the purpose of a link that is sent to a person. A person has at most one of each kind: a new one ends
// the one before.
type LinkKind string

// SetLinkPath sets the page that links of a kind open, before the service is used.
func (s *Service) SetLinkPath(kind LinkKind, path string) {
	if s.linkPaths == nil {
		s.linkPaths = map[LinkKind]string{}
	}
	s.linkPaths[kind] = path
}

// LinkPath returns the page that links of a kind open.
func (s *Service) LinkPath(kind LinkKind) string { return s.linkPaths[kind] }

// The parameter of links, the keys of their data, and a lifetime.
const (
	LinkParam = "token" // access logs leave out its values
	// LinkTo is the key of the e-mail address that the link was sent to. The link ends if the person's address
	// changes.
	LinkTo = "to"
	// LinkNumber is the key of the phone number that the code for the link was sent to (E.164). The link ends if the
	// person's number changes.
	LinkNumber = "number"
	LinkCookie = time.Hour // how long a page that a link has opened can stay open
)

// NewLink stores a link for a person in place of an older one of the kind, and returns its path. A new password or a
// block ends it, and so does another address if data has LinkTo, or another number if it has LinkNumber. For an
// unknown id the same work is done, but the link never works.
func (s *Service) NewLink(tx storage.Tx, kind LinkKind, personID string, data map[string]string, life time.Duration,
	now time.Time,
) (path string, err error) {
	token, err := s.putLink(tx, kind, personID, data, life, now)
	return s.LinkPath(kind) + "?" + url.Values{LinkParam: {token}}.Encode(), err
}

// putLink is NewLink, and returns only the token.
func (s *Service) putLink(tx storage.Tx, kind LinkKind, personID string, data map[string]string, life time.Duration,
	now time.Time,
) (token string, err error) {
	token, err = secret.NewToken(s.deps.Random, secret.MailLink)
	if err != nil {
		return "", err
	}
	p, _, err := person.Records.Find(tx, personID)
	if err != nil {
		return "", err
	}
	global, err := session.GlobalEpoch(tx)
	if err != nil {
		return "", err
	}
	newest := storage.Key(personID, string(kind))
	before, found, err := linksOf.Find(tx, newest)
	if err != nil {
		return "", err
	}
	if found {
		if err := linkRecords.Delete(tx, before); err != nil {
			return "", err
		}
	}
	hash := secret.Hash(token)
	rec := LinkRecord{
		Kind: string(kind), PersonID: personID, Epoch: p.Epoch, Global: global, Data: data, CreatedAt: now, ExpiresAt: now.Add(life),
	}
	if err := linkRecords.Create(tx, hash, rec, rec.ExpiresAt.Add(session.CollectAfter)); err != nil {
		return "", err
	}
	if err := linksOf.Put(tx, newest, hash, rec.ExpiresAt.Add(session.CollectAfter)); err != nil {
		return "", err
	}
	return token, nil
}

// ReadLink returns a link that works, or ErrNoLink: the link is unknown, used, expired or not the newest, or the
// person is blocked, removed, or has a new password or address.
func (s *Service) ReadLink(tx storage.Tx, kind LinkKind, token string, now time.Time) (LinkRecord, error) {
	if !secret.IsToken(secret.MailLink, token) {
		return LinkRecord{}, ErrNoLink
	}
	rec, err := linkRecords.Get(tx, secret.Hash(token))
	var p person.Record
	if err == nil {
		p, err = person.Records.Get(tx, rec.PersonID)
	}
	if errors.Is(err, storage.ErrNotFound) {
		return rec, ErrNoLink
	}
	if err != nil {
		return rec, err
	}
	global, err := session.GlobalEpoch(tx)
	if err != nil {
		return rec, err
	}
	if rec.Kind != string(kind) || !rec.ExpiresAt.After(now) || p.State == person.Blocked || p.State == person.Removed ||
		p.Epoch != rec.Epoch || rec.Global != global {
		return rec, ErrNoLink
	}
	to, number := rec.Data[LinkTo], rec.Data[LinkNumber]
	if to == "" && number == "" {
		return rec, nil
	}
	t, err := s.LinkReached(tx, rec.PersonID, &p)
	if err == nil && (to != "" && person.FoldEmail(t.Address()) != person.FoldEmail(to) ||
		number != "" && person.TextNumber(t.Profile) != number) {
		err = ErrNoLink
	}
	return rec, err
}

// SpendLink is ReadLink, and deletes the link.
func (s *Service) SpendLink(tx storage.Tx, kind LinkKind, token string, now time.Time) (LinkRecord, error) {
	rec, err := s.ReadLink(tx, kind, token, now)
	if err != nil {
		return rec, err
	}
	if err := linkRecords.Delete(tx, secret.Hash(token)); err != nil {
		return rec, err
	}
	return rec, linksOf.Delete(tx, storage.Key(rec.PersonID, string(kind)))
}

// LinkReached returns a person as the recipient of what lets its reader sign in. An unverified address that a
// provider has brought can be another person's, so it does not count. Nor does one that an untrusted actor has
// entered, for a person with a role in the admin console.
func (s *Service) LinkReached(tx storage.Tx, id string, rec *person.Record) (person.Recipient, error) {
	prof, err := person.ReadProfile(tx, id, rec)
	if err != nil {
		return person.Recipient{}, err
	}
	t := person.Recipient{ID: id, Record: rec, Profile: &prof.Profile, VerifiedOnly: rec.External != ""}
	if s.deps.Person.HasRole(rec) {
		t.Profile = t.Profile.Trusted()
	}
	if !t.VerifiedOnly {
		for _, err := range person.IdentitiesOf.Scan(tx, storage.Range{Prefix: storage.Prefix(id), Limit: 1}) {
			if err != nil {
				return person.Recipient{}, err
			}
			t.VerifiedOnly = true
		}
	}
	return t, nil
}

// OpenLink is a link that a browser has opened.
type OpenLink struct {
	Kind   LinkKind
	Token  string
	Record LinkRecord
}

// Form returns what the page's form is bound to.
func (o *OpenLink) Form() string { return "link:" + string(o.Kind) + ":" + secret.Hash(o.Token) }

// LinkCookieOf returns the name of the cookie that holds the token of an open link.
func LinkCookieOf(kind LinkKind) string { return "link-" + string(kind) }
