package authz

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"

	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

// The subject types of OpenID Connect Core 8.
const (
	subjectPublic   = "public"
	subjectPairwise = "pairwise"
)

// pairwiseKey names the record of the key that makes pairwise subjects.
const pairwiseKey = "pairwise"

// sector is the host of the client's redirect URIs: clients of one sector know a person by one pairwise subject. (OpenID Connect Core
// 8.1) Empty: the client knows the public one. Validate has seen to it that there is one host.
func (c *Client) sector() string {
	if c.SubjectType != subjectPairwise || len(c.RedirectURIs) == 0 {
		return ""
	}
	return redirectOwner(c.RedirectURIs[0])
}

func (c *Client) checkSubjectType(p *problems) {
	p.oneOf("subject_type", c.SubjectType, subjectPublic, subjectPairwise)
	if c.SubjectType != subjectPairwise {
		return
	}
	sector := c.sector()
	if sector == "" {
		p.addf("subject_type: pairwise needs redirect_uris, whose host is the sector")
		return
	}
	for _, uri := range c.RedirectURIs {
		if redirectOwner(uri) != sector {
			p.addf("subject_type: pairwise needs redirect_uris of one host, not both %s and %s", sector, redirectOwner(uri))
			return
		}
	}
}

// subjectFor is the identifier by which a client knows a person. Whatever tells a client who somebody is passes here; sites that
// protect guards, events and the APIs know the public one.
func (s *Server) subjectFor(c *Client, person string) string { return s.subjectIn(c.sector(), person) }

// subjectIn is subjectFor for a sector.
func (s *Server) subjectIn(sector, person string) string {
	if sector == "" || person == "" {
		return person
	}
	return base64.RawURLEncoding.EncodeToString(secret.MAC(s.pairwise, pairwiseKey, sector, person))
}

// subject is the one that an answer to or about the token's client names.
func (s *Server) subject(in *Introspection) string {
	if in.Person == nil {
		return in.Subject // the client itself
	}
	return s.subjectIn(in.sector, in.Subject)
}

// hinted tells whether the person is the one that id_token_hint or the claims parameter names, if they name any.
func (s *Server) hinted(q *requestRecord, result *login.Result) bool {
	return q.HintSubject == "" || q.HintSubject == s.subjectIn(q.HintSector, result.Subject)
}

// hint demands a person. Only one can be demanded.
func (q *requestRecord) hint(sector, subject string) error {
	if q.HintSubject != "" && (q.HintSubject != subject || q.HintSector != sector) {
		return invalidRequest(nil, "the request names several persons")
	}
	q.HintSubject, q.HintSector = subject, sector
	return nil
}

// hintSector is the sector in which an ID token of a client names its person. That of a client that is gone is public.
func (s *Server) hintSector(ctx context.Context, clientID string) (string, error) {
	c, err := s.findClient(ctx, clientID)
	if errors.Is(err, storage.ErrNotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return c.sector(), nil
}

// loadPairwise returns the key of pairwise subjects. It is made once for a store and never changed, since every pairwise subject would
// change with it; the encryption key that seals it may be.
func loadPairwise(ctx context.Context, store storage.Store, keyring *secret.Keyring, random io.Reader) ([]byte, error) {
	purpose := "authz_secret/" + pairwiseKey
	var rec secretRecord
	read := func(tx storage.Tx) (err error) {
		rec, err = secrets.Get(tx, pairwiseKey)
		return err
	}
	err := store.View(ctx, read)
	if errors.Is(err, storage.ErrNotFound) {
		key := make([]byte, secret.KeySize)
		if _, err := io.ReadFull(random, key); err != nil {
			return nil, err
		}
		sealed, err := keyring.Seal(purpose, key)
		if err != nil {
			return nil, err
		}
		err = store.Update(ctx, func(tx storage.Tx) error {
			if err := read(tx); !errors.Is(err, storage.ErrNotFound) {
				return err // another server was faster
			}
			rec = secretRecord{Sealed: sealed}
			return secrets.Create(tx, pairwiseKey, rec, never)
		})
		if err != nil {
			return nil, fmt.Errorf("store the key of pairwise subjects: %w", err)
		}
	} else if err != nil {
		return nil, fmt.Errorf("load the key of pairwise subjects: %w", err)
	}
	key, err := keyring.Open(purpose, rec.Sealed)
	if err != nil {
		return nil, fmt.Errorf("the key of pairwise subjects: the encryption key does not open it: %w", err)
	}
	if keyring.IsCurrent(rec.Sealed) {
		return key, nil
	}
	sealed, err := keyring.Seal(purpose, key) // so that the old encryption key can go
	if err != nil {
		return nil, err
	}
	err = store.Update(ctx, func(tx storage.Tx) error { return secrets.Put(tx, pairwiseKey, secretRecord{Sealed: sealed}, never) })
	if err != nil {
		return nil, fmt.Errorf("seal the key of pairwise subjects anew: %w", err)
	}
	return key, nil
}
