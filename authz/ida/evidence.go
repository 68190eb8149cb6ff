package ida

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gatehouse-id/gatehouse/internal/authn"
)

// evidenceRequest is the request for evidence: one of several kinds. Empty: any.
type evidenceRequest []evidencePart

// evidencePart is one kind of evidence that fits, and what is to be told of it.
type evidencePart struct {
	Type     *constraint                `json:"type"`
	Document map[string]json.RawMessage `json:"document_details"`
	Record   map[string]json.RawMessage `json:"record"`
	named    map[string]json.RawMessage

	documentType, recordType *constraint // of the members type in the two above
}

func readEvidence(raw json.RawMessage) (out evidenceRequest, err error) {
	if bytes.Equal(bytes.TrimSpace(raw), []byte("null")) {
		return nil, nil
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil || len(list) > maxParts {
		return nil, fmt.Errorf("verified_claims: evidence is no array of at most %d objects: %w", maxParts, err)
	}
	for _, one := range list {
		var p evidencePart
		if err = json.Unmarshal(one, &p); err == nil {
			err = json.Unmarshal(one, &p.named)
		}
		if err == nil {
			p.documentType, err = typeOf(p.Document)
		}
		if err == nil {
			p.recordType, err = typeOf(p.Record)
		}
		if err != nil {
			return nil, fmt.Errorf("verified_claims: evidence: %w", err)
		}
		out = append(out, p)
	}
	return out, nil
}

// typeOf reads what is asked of the member type.
func typeOf(of map[string]json.RawMessage) (*constraint, error) {
	if raw, ok := of["type"]; ok {
		return readConstraint(raw)
	}
	return nil, nil //nolint:nilnil // any type fits
}

// of returns what is told of evidence, or nil if it is of another kind than is asked for.
func (r evidenceRequest) of(e *authn.Evidence, now time.Time) map[string]any {
	if len(r) == 0 {
		r = evidenceRequest{{}}
	}
	for i := range r {
		if shown := r[i].of(e, now); shown != nil {
			return shown
		}
	}
	return nil
}

func (p *evidencePart) of(e *authn.Evidence, now time.Time) map[string]any {
	kind, member, details, detail, asked := typeDocument, "document_details", p.Document, e.Document, p.documentType
	if e.Kind == authn.EvidenceSignIn {
		kind, member, details, detail, asked = typeRecord, "record", p.Record, recordSignIn, p.recordType
	}
	if !p.Type.fits(kind) || !asked.fits(detail) {
		return nil
	}
	out := map[string]any{"type": kind}
	if _, named := p.named[member]; named { // section 6: nothing is told that is not asked for
		told := map[string]any{"type": detail}
		if _, named := details["source"]; named && kind == typeRecord {
			told["source"] = map[string]any{"name": e.By}
		}
		out[member] = told
	}
	if raw, named := p.named["time"]; named {
		c, err := readConstraint(raw)
		if at := e.Since.UTC().Format(time.RFC3339); err == nil && c.fits(at) && c.isRecent(e.Since, now) {
			out["time"] = at
		} else {
			return nil
		}
	}
	return out
}
