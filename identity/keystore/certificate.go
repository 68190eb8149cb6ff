package keystore

import (
	"errors"
	"io"
	"net/http"

	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	maxCertificateBody = 128 << 10 // bytes: two PEM in Base64, escaped, with room
	maxBatchBody       = 2 << 20   // bytes
	// maxDrained is the number of bytes of a body that is too large that are still read, so the client gets to read the
	// answer.
	maxDrained = 16 << 20
)

// addCertificateRequest and the next two are the bodies of requests. (identity service document, "KeyPair")
type addCertificateRequest struct {
	KeyPair KeyPair `json:"key_pair" rest:"required"`
}

type updateCertificateRequest struct {
	KeyPair KeyPair `json:"key_pair" rest:"required"`
}

type updateCertificatesInBatchRequest struct {
	KeyPairs []KeyPair `json:"key_pairs" rest:"required"`
}

// certificateID is the answer to an operation that adds, changes or removes one.
type certificateID struct {
	ID string `json:"id"`
}

type certificateIDs struct {
	IDs []string `json:"ids"`
}

// readCertificate reads a body. A PEM that is too large is a bad PEM, so it is 400.
func readCertificate(w http.ResponseWriter, r *http.Request, most int64, into any) error {
	err := jsonapi.Decode(w, r, most, into)
	if e := new(jsonapi.Error); errors.As(err, &e) && e.Status == http.StatusRequestEntityTooLarge {
		_, _ = io.CopyN(io.Discard, r.Body, maxDrained)
		return (&jsonapi.Error{Status: http.StatusBadRequest, Message: e.Message}).With(err)
	}
	return err
}

// handleAddCertificate serves POST /v2/config/certificates (identity service document, "Certificates").
func (s *Service) handleAddCertificate(w http.ResponseWriter, r *http.Request, client string) error {
	var in addCertificateRequest
	if err := readCertificate(w, r, maxCertificateBody, &in); err != nil {
		return err
	}
	if in.KeyPair.ID != "" {
		return jsonapi.Invalid(jsonapi.Problem{Path: "key_pair.id", Problem: "is ours to choose"})
	}
	by := s.by(r, client)
	n, err := s.prepareOne("key_pair", "", in.KeyPair, by)
	if err != nil {
		return err
	}
	change, err := s.newChange(r.Context(), by, n)
	if err != nil {
		return err
	}
	if err := change.refuseExpired(); err != nil {
		return err
	}
	if err := s.apply(r, allPairs, change.Apply); err != nil {
		return err
	}
	jsonapi.JSON(w, http.StatusOK, certificateID{n.id})
	return nil
}

// handleGetCertificates serves GET /v2/config/certificates (identity service document, "Certificates").
func (s *Service) handleGetCertificates(w http.ResponseWriter, r *http.Request, _ string) error {
	list, err := s.read(r, allPairs)
	if err != nil {
		return err
	}
	jsonapi.Tagged(w, r, tagOf(list), answers(list))
	return nil
}

// handleGetCertificate serves GET /v2/config/certificates/{certificateId} (identity service document, "Certificates").
func (s *Service) handleGetCertificate(w http.ResponseWriter, r *http.Request, _ string) error {
	list, err := s.read(r, onePair(r.PathValue("certificateId")))
	if err != nil {
		return err
	}
	jsonapi.Tagged(w, r, tagOf(list), answers(list)[0])
	return nil
}

// storedPair returns the pair of an id that a path names, or 404.
func storedPair(tx storage.Tx, id string) (record, error) {
	if !isID(id) {
		return record{}, jsonapi.NotFound()
	}
	rec, err := keyPairs.Get(tx, id)
	if errors.Is(err, storage.ErrNotFound) {
		return rec, jsonapi.NotFound()
	}
	return rec, err
}

// handleUpdateCertificate serves POST /v2/config/certificates/{certificateId} (identity service document,
// "Certificates").
func (s *Service) handleUpdateCertificate(w http.ResponseWriter, r *http.Request, client string) error {
	id := r.PathValue("certificateId")
	var in updateCertificateRequest
	if err := readCertificate(w, r, maxCertificateBody, &in); err != nil {
		return err
	}
	err := s.store.View(r.Context(), func(tx storage.Tx) error {
		_, err := storedPair(tx, id)
		return err
	})
	if err != nil {
		return err
	}
	if in.KeyPair.ID != "" && in.KeyPair.ID != id {
		return jsonapi.Invalid(jsonapi.Problem{Path: "key_pair.id", Problem: "is not that of the path"})
	}
	by := s.by(r, client)
	n, err := s.prepareOne("key_pair", id, in.KeyPair, by)
	if err != nil {
		return err
	}
	change, err := s.newChange(r.Context(), by, n)
	if err != nil {
		return err
	}
	if err := s.apply(r, onePair(id), change.Apply); err != nil {
		return err
	}
	jsonapi.JSON(w, http.StatusOK, certificateID{id})
	return nil
}

// handleDeleteCertificate serves DELETE /v2/config/certificates/{certificateId} (identity service document,
// "Certificates").
func (s *Service) handleDeleteCertificate(w http.ResponseWriter, r *http.Request, client string) error {
	id := r.PathValue("certificateId")
	by := s.by(r, client)
	e, err := s.events.By(certificateRemoved, by)
	if err != nil {
		return err
	}
	finish, err := s.owner.Change(r.Context(), by)
	if err != nil {
		return err
	}
	err = s.apply(r, onePair(id), func(tx storage.Tx) error {
		if _, err := storedPair(tx, id); err != nil {
			return err
		}
		return s.delete(tx, id, e, finish)
	})
	if err != nil {
		return err
	}
	jsonapi.JSON(w, http.StatusOK, certificateID{id})
	return nil
}

// handleUpdateCertificates serves POST /v2/config/certificates/batch: a key pair with the id or name of a stored one
// replaces it, any other is added, all of them or none. (identity service document, "Certificates")
func (s *Service) handleUpdateCertificates(w http.ResponseWriter, r *http.Request, client string) error {
	var in updateCertificatesInBatchRequest
	if err := readCertificate(w, r, maxBatchBody, &in); err != nil {
		return err
	}
	change, err := s.Prepare(r.Context(), "key_pairs", in.KeyPairs, s.by(r, client))
	if err != nil {
		return err
	}
	if err := change.refuseExpired(); err != nil {
		return err
	}
	if err := s.apply(r, allPairs, change.Apply); err != nil {
		return err
	}
	jsonapi.JSON(w, http.StatusOK, certificateIDs{change.ids()})
	return nil
}
