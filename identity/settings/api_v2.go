package settings

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/gatehouse-id/gatehouse/identity/keystore"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/storage"
)

// unitNamed returns the unit of the table that has a name.
func unitNamed(name string) unit {
	return table[slices.IndexFunc(table, func(un unit) bool { return un.name == name })]
}

// getUnit serves the GET of a unit.
func (a *API) getUnit(name string) jsonapi.Handler {
	un := unitNamed(name)
	return func(w http.ResponseWriter, r *http.Request, client string) error {
		st, err := a.s.current(r.Context())
		if err != nil {
			return err
		}
		return writeView(w, r, st.seenBy(client), unitView(un))
	}
}

// postUnit serves the POST of a unit: members that are present replace, absent ones stay.
// (docs/decisions/configuration.md#configuration-units)
func (a *API) postUnit(name string) jsonapi.Handler {
	un := unitNamed(name)
	return func(w http.ResponseWriter, r *http.Request, client string) error {
		body, err := jsonapi.Body(w, r, maxBody)
		if err != nil {
			return err
		}
		return within(a.changeBy(w, r, unitView(un), edit{
			by: a.s.by(r, client), sent: map[string]json.RawMessage{un.name: body}, apply: un.decode(body),
		}), un.name)
	}
}

// change carries out the edit of a request and answers 204 with the entity tag of the result.
func (a *API) change(w http.ResponseWriter, r *http.Request, client string, v view, apply func(u *Units) error) error {
	return a.changeBy(w, r, v, edit{by: a.s.by(r, client), apply: apply})
}

func (a *API) changeBy(w http.ResponseWriter, r *http.Request, v view, e edit) error {
	e.match, e.client = ifMatch(r, v), e.by.ID
	st, err := a.s.update(r.Context(), e)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", v.etag(st.seenBy(e.client)))
	jsonapi.Empty(w, http.StatusNoContent)
	return nil
}

// cimConfiguration is all units and key pairs. (identity service document, CIMConfiguration)
type cimConfiguration struct {
	Attributes     *Attributes        `json:"attributes"`
	CustomMessages *CustomMessages    `json:"custom_messages"`
	Features       *Features          `json:"features"`
	KeyPairs       []keystore.KeyPair `json:"key_pairs"`
	LoginMethods   *LoginMethods      `json:"login_methods"`
	Organisations  []Organisation     `json:"organisations"`
	Redirects      *Redirects         `json:"redirects"`
	StepUp         *StepUp            `json:"step_up"`
	UIExtension    *UIExtension       `json:"ui_extension"`
}

// getUnits serves GET /api/v2/config (identity service document, CIMConfiguration).
func (a *API) getUnits(w http.ResponseWriter, r *http.Request, client string) error {
	var st *state
	var pairs []keystore.KeyPair
	err := a.s.store.View(r.Context(), func(tx storage.Tx) (err error) {
		if st, err = a.s.state(tx); err == nil {
			pairs, err = a.s.keyPairs.List(tx)
		}
		return err
	})
	if err != nil {
		return err
	}
	u, tag := st.units, a.s.viewOf(client).etag(st)
	if _, bound := st.bindingOf(client); bound != "" {
		jsonapi.Tagged(w, r, tag, map[string]any{"organisations": st.seenBy(client).units.Organisations})
		return nil
	}
	jsonapi.Tagged(w, r, tag, cimConfiguration{
		&u.Attributes, &u.CustomMessages, &u.Features, pairs, &u.LoginMethods, u.Organisations, &u.Redirects, &u.StepUp, &u.UIExtension,
	})
	return nil
}

// wholeView is the whole configuration: the number of changes stands for everything stored, and the rest comes from the
// Caddyfile.
func (s *Service) wholeView() view {
	return func(st *state) (any, uint64) {
		return []any{s.cfg.Fixed, s.cfg.Mail, s.cfg.Switches}, st.version.Version - st.version.Quiet
	}
}

// viewOf returns the configuration as an API client sees it.
func (s *Service) viewOf(client string) view {
	return func(st *state) (any, uint64) {
		if _, bound := st.bindingOf(client); bound != "" {
			return st.seenBy(client).units.Organisations, 0
		}
		return s.wholeView()(st)
	}
}

// bundle is several units together: those of CIMConfiguration, and those of version 1, so every unit can be imported.
type bundle struct {
	Units
	KeyPairs []keystore.KeyPair `json:"key_pairs"`
}

// postUnits serves POST /api/v2/config: all of the units in the body or none.
func (a *API) postUnits(w http.ResponseWriter, r *http.Request, client string) error {
	body, err := jsonapi.Body(w, r, MaxConfiguration)
	if err != nil {
		return err
	}
	e, err := a.s.editAll(r.Context(), body, a.s.by(r, client), jsonapi.DecodeBytes)
	if err != nil {
		return err
	}
	e.client, e.match, e.keepIDs = client, ifMatch(r, a.s.viewOf(client)), false
	st, err := a.s.update(r.Context(), e)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", a.s.viewOf(client).etag(st))
	jsonapi.Empty(w, http.StatusNoContent)
	return nil
}

// putCustomMessages serves PUT /api/v2/config/custom-messages: it replaces all of them.
func (a *API) putCustomMessages(w http.ResponseWriter, r *http.Request, client string) error {
	var in CustomMessages
	if err := jsonapi.Decode(w, r, maxBody, &in); err != nil {
		return err
	}
	return within(a.change(w, r, client, unitView(unitNamed("custom_messages")), func(u *Units) error {
		u.CustomMessages = in
		return nil
	}), "custom_messages")
}

// putMessages serves PUT /api/v2/config/custom-messages/{locale_variant}/batch: each message of the body is created or
// replaced.
func (a *API) putMessages(w http.ResponseWriter, r *http.Request, client string) error {
	locale := r.PathValue("locale_variant")
	var in Translations
	if err := jsonapi.Decode(w, r, maxBody, &in); err != nil {
		return err
	}
	apply, part, err := settingMessages(locale, in)
	if err != nil {
		return err
	}
	return within(a.change(w, r, client, unitView(unitNamed("custom_messages")), apply), part)
}

// deleteMessage serves DELETE /api/v2/config/custom-messages/{locale_variant}/{message_key}.
func (a *API) deleteMessage(w http.ResponseWriter, r *http.Request, client string) error {
	return a.change(w, r, client, unitView(unitNamed("custom_messages")),
		removingMessage(r.PathValue("locale_variant"), r.PathValue("message_key")))
}
