package settings

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/storage"
)

// updateAll applies a JSON object of units and key pairs, as an export has them: all of it or nothing.
func (s *Service) updateAll(ctx context.Context, raw []byte, by audit.Actor, match func(*state) bool) (*state, error) {
	e, err := s.editAll(ctx, raw, by, jsonapi.MergeBytes)
	if err != nil {
		return nil, err
	}
	e.match = match
	return s.update(ctx, e)
}

// editAll is the edit of updateAll. read reads the JSON onto the units: jsonapi.DecodeBytes where the members that the
// document demands must be there, otherwise jsonapi.MergeBytes.
func (s *Service) editAll(ctx context.Context, raw []byte, by audit.Actor, read func([]byte, any) error) (edit, error) {
	first := bundle{Units: Defaults()}
	if err := read(raw, &first); err != nil {
		return edit{}, err
	}
	var sent map[string]json.RawMessage
	if err := json.Unmarshal(raw, &sent); err != nil {
		return edit{}, err
	}
	e := edit{by: by, keepIDs: true, sent: sent, apply: func(u *Units) error {
		b := bundle{Units: *u}
		err := read(raw, &b)
		*u = b.Units
		return err
	}}
	if len(first.KeyPairs) > 0 {
		pairs, err := s.keyPairs.Prepare(ctx, "key_pairs", first.KeyPairs, by)
		if err != nil {
			return edit{}, err
		}
		e.pairs = pairs
	}
	return e, nil
}

// bootstrap applies the operator's units to a storage that was never configured.
func (s *Service) bootstrap(ctx context.Context) error {
	st, err := s.current(ctx)
	switch {
	case err != nil || st.version.Version > 0:
		return err
	case s.cfg.BootstrapFault != nil:
		return s.cfg.BootstrapFault
	case len(s.cfg.Bootstrap) == 0:
		return nil
	}
	unconfigured := func(st *state) bool { return st.version.Version == 0 }
	_, err = s.updateAll(WithRights(ctx, Owner), s.cfg.Bootstrap, audit.Actor{ID: "configuration", Origin: audit.Self}, unconfigured)
	if e := new(jsonapi.Error); errors.As(err, &e) {
		if e.Status == http.StatusPreconditionFailed { // another node was faster
			return nil
		}
		return fmt.Errorf("bootstrap: %s", e.Message)
	}
	return err
}

// Export returns every unit and the public part of every key pair, as Import takes them. Secrets are empty, so an
// import keeps the stored ones. The login methods of the Caddyfile are left out.
func (s *Service) Export(ctx context.Context) (json.RawMessage, error) {
	var out bundle
	err := s.store.View(ctx, func(tx storage.Tx) error {
		st, err := s.state(tx)
		if err != nil {
			return err
		}
		out.Units = *st.units
		s.withoutFixed(&out.Units)
		out.KeyPairs, err = s.keyPairs.List(tx)
		return err
	})
	if err != nil {
		return nil, err
	}
	return encode(out), nil
}

// Import applies a JSON object of units: members that are present replace the stored ones. It returns the changes.
func (s *Service) Import(ctx context.Context, raw []byte, by audit.Actor) ([]Change, error) {
	return s.apply(ctx, raw, by, false)
}

// Edit applies a function to the units, which may run several times. It returns the changes.
func (s *Service) Edit(ctx context.Context, by audit.Actor, apply func(u *Units) error) (changed []Change, err error) {
	_, err = s.update(ctx, edit{by: by, apply: apply, report: &changed})
	return changed, err
}

// Diff returns the changes that Import would make.
func (s *Service) Diff(ctx context.Context, raw []byte) ([]Change, error) {
	return s.apply(ctx, raw, audit.Actor{}, true)
}

func (s *Service) apply(ctx context.Context, raw []byte, by audit.Actor, dry bool) ([]Change, error) {
	e, err := s.editAll(ctx, raw, by, jsonapi.MergeBytes)
	if err != nil {
		return nil, err
	}
	var changed []Change
	e.report, e.dry = &changed, dry
	if _, err = s.update(ctx, e); err != nil {
		return nil, err
	}
	if changed == nil {
		changed = []Change{}
	}
	return changed, nil
}

// Check returns the units of a JSON object, or what is wrong with them as far as that is possible without a storage:
// key pairs are not checked.
func (c Config) Check(raw []byte) (*Units, error) {
	b := bundle{Units: *c.standard()}
	if err := jsonapi.MergeBytes(raw, &b); err != nil {
		return nil, err
	}
	s := &Service{cfg: c, random: new(counter)}
	_, err := s.settle(c.standard(), &b.Units, true)
	return &b.Units, err
}

// counter replaces randomness where ids only have to differ.
type counter byte

func (c *counter) Read(b []byte) (int, error) {
	for i := range b {
		*c++
		b[i] = byte(*c)
	}
	return len(b), nil
}
