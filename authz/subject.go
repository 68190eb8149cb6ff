package authz

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"

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

// maxSeals are the encryption keys of which a secret is remembered as sealed.
const maxSeals = 4

// loadPairwise returns the key of pairwise subjects. It is made once for a store and never changed, since every pairwise subject would
// change with it; the encryption key that seals it may be.
func loadPairwise(ctx context.Context, store storage.Store, keyring *secret.Keyring, random io.Reader) (key []byte, err error) {
	fresh := make([]byte, secret.KeySize)
	if _, err := io.ReadFull(random, fresh); err != nil {
		return nil, err
	}
	current := false
	read := func(tx storage.Tx) (rec secretRecord, err error) {
		rec, found, err := secrets.Find(tx, pairwiseKey)
		if err == nil && found {
			key, current, err = rec.open(keyring)
		} else {
			key, current = fresh, false
		}
		return rec, err
	}
	err = store.View(ctx, func(tx storage.Tx) error {
		_, err := read(tx)
		return err
	})
	if err != nil || current {
		return key, wrapPairwise(err)
	}
	err = store.Update(ctx, func(tx storage.Tx) error {
		rec, err := read(tx) // another server may have been faster
		if err != nil || current {
			return err
		}
		sealed, err := keyring.Seal(pairwisePurpose, key)
		if err != nil {
			return err
		}
		rec.Sealed = append([][]byte{sealed}, rec.Sealed...)
		rec.Sealed = rec.Sealed[:min(len(rec.Sealed), maxSeals)]
		return secrets.Put(tx, pairwiseKey, rec, never)
	})
	return key, wrapPairwise(err)
}

const pairwisePurpose = "authz_secret/" + pairwiseKey

func wrapPairwise(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("key of pairwise subjects: %w", err)
}

// open returns the secret and whether the encryption key that seals today has sealed it.
func (r *secretRecord) open(keyring *secret.Keyring) (text []byte, current bool, err error) {
	err = secret.ErrSealed
	for _, sealed := range r.Sealed {
		if text, err = keyring.Open(pairwisePurpose, sealed); err == nil {
			break
		}
	}
	if err != nil {
		return nil, false, fmt.Errorf("the encryption key does not open it: %w", err)
	}
	return text, slices.ContainsFunc(r.Sealed, keyring.IsCurrent), nil
}
