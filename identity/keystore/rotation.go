package keystore

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"net/http"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/coded"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
)

// OwnID is the id of Gatehouse's own key pair in the API.
const OwnID = "own"

// Rotation is a key pair and how far its rotation is. It has nothing that is secret.
type Rotation struct {
	ID       string   `json:"id" rest:"required"`   // OwnID is Gatehouse's own
	Name     string   `json:"name" rest:"required"` // "" is Gatehouse's own
	KeyType  string   `json:"key_type" rest:"required"`
	Stage    Stage    `json:"stage" rest:"required"`
	NextStep Step     `json:"next_step,omitempty"` // absent: it cannot be rotated
	UsedBy   []string `json:"used_by" rest:"required"`
	// Current are the keys that sign. Next are those that take their place soon, and Former those that they have taken the
	// place of, which still decrypt if they can. Absent: there are none, and a keytab has none that can be shown
	Current *PublicPart `json:"current,omitempty"`
	Next    *PublicPart `json:"next,omitempty"`
	Former  *PublicPart `json:"former,omitempty"`
}

// PublicPart is the certificate of a key, or the public key alone.
type PublicPart struct {
	PublicKey string    `json:"public_key" rest:"required"` // PEM in Base64
	SHA256    string    `json:"sha256" rest:"required"`     // the fingerprint of its DER, in hexadecimal digits
	NotAfter  time.Time `json:"not_after,omitzero"`         // of the certificate
	// Since is the time when the next keys were announced, or others have replaced the former ones.
	Since time.Time `json:"since,omitzero"`
}

func publicPart(raw []byte, notAfter, since time.Time) *PublicPart {
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil
	}
	sum := sha256.Sum256(block.Bytes)
	return &PublicPart{base64.StdEncoding.EncodeToString(raw), hex.EncodeToString(sum[:]), notAfter, since}
}

func (s *Spare) publicPart() *PublicPart {
	if s == nil {
		return nil
	}
	return publicPart(s.PEM, s.NotAfter, s.Since)
}

// rotation is a summary as it is answered.
func (s *Summary) rotation() Rotation {
	out := Rotation{
		ID: s.ID, Name: s.Name, KeyType: s.Type, Stage: s.Stage(), NextStep: s.Stage().NextStep(), UsedBy: append([]string{}, s.UsedBy...),
		Current: publicPart(s.PEM, s.NotAfter, time.Time{}), Next: s.Next.publicPart(), Former: s.Former.publicPart(),
	}
	if s.ID == "" {
		out.ID = OwnID
	}
	return out
}

// Rotations returns the key pairs in the order of their names, Gatehouse's own first once it is made.
func (s *Service) Rotations(ctx context.Context) ([]Rotation, error) {
	list, err := s.Summaries(ctx)
	out := make([]Rotation, len(list))
	for i := range list {
		out[i] = list[i].rotation()
	}
	return out, err
}

// Rotation returns the key pair of an id; "" is Gatehouse's own, which is made if it is not there yet. Error:
// ErrUnknown.
func (s *Service) Rotation(ctx context.Context, id string) (Rotation, error) {
	_, is, err := s.one(ctx, id)
	return is.rotation(), err
}

// handleGetRotations serves GET /v2/config/certificates/rotations.
// (docs/decisions/configuration.md#rotation-of-key-pairs)
func (s *Service) handleGetRotations(w http.ResponseWriter, r *http.Request, _ string) error {
	list, err := s.Rotations(r.Context())
	if err != nil {
		return err
	}
	jsonapi.Tagged(w, r, jsonapi.Tag(list, 0), list)
	return nil
}

// handleGetRotation serves GET /v2/config/certificates/{certificateId}/rotation.
func (s *Service) handleGetRotation(w http.ResponseWriter, r *http.Request, _ string) error {
	id, err := rotationID(r)
	if err != nil {
		return err
	}
	now, err := s.Rotation(r.Context(), id)
	if err != nil {
		return Refusal(err)
	}
	jsonapi.Tagged(w, r, jsonapi.Tag(now, 0), now)
	return nil
}

// rotationID is the id of the pair that a path names: "" is Gatehouse's own.
func rotationID(r *http.Request) (string, error) {
	id := r.PathValue("certificateId")
	if id == OwnID {
		return "", nil
	}
	if !isID(id) {
		return "", jsonapi.NotFound()
	}
	return id, nil
}

// handleRotate serves POST /v2/config/certificates/{certificateId}/rotation/announce, its sisters switch and retire,
// and /v2/config/certificates/{certificateId}/renew.
func (s *Service) handleRotate(step Step) jsonapi.Handler {
	return func(w http.ResponseWriter, r *http.Request, client string) error {
		id, err := rotationID(r)
		if err != nil {
			return err
		}
		var holds func(Summary) bool
		if tagged := jsonapi.Precondition(r); tagged != nil {
			holds = func(is Summary) bool { return tagged(jsonapi.Tag(is.rotation(), 0)) }
		}
		if err := s.rotateIf(r.Context(), id, step, s.by(r, client), holds); err != nil {
			return Refusal(err)
		}
		now, err := s.Rotation(r.Context(), id)
		if err != nil {
			return Refusal(err)
		}
		w.Header().Set("ETag", jsonapi.Tag(now, 0))
		jsonapi.JSON(w, http.StatusOK, now)
		return nil
	}
}

// Refusal is an error of Rotate or Rotation as APIs answer it.
func Refusal(err error) error {
	at := new(StageError)
	switch {
	case errors.Is(err, ErrUnknown):
		return jsonapi.NotFound()
	case errors.Is(err, ErrNoPrivateKey):
		fixed := coded.New("not_rotated", "the key pair has no private key, or is a keytab: it cannot be rotated")
		return conflict(fixed.Error(), fixed)
	case errors.As(err, &at):
		e := conflict(at.Error(), coded.New("rotation_stage", at.Error()))
		e.Details = map[string]any{"stage": at.Stage, "next_step": at.Stage.NextStep()}
		return e
	}
	return err
}
