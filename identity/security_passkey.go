package identity

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const maxPasskeyName = 64 // characters

// errKnownPasskey says that a credential is somebody's already.
var errKnownPasskey = errors.New("identity: the passkey is there already")

func passkeySection(tx storage.Tx, si *signedIn, st *standing) (*page.SecuritySection, error) {
	if !slices.Contains(st.all, &passkeyMethod) {
		return nil, nil //nolint:nilnil // switched off
	}
	set, err := readPasskeys(tx, si.session.PersonID)
	if err != nil {
		return nil, err
	}
	out := &page.SecuritySection{Key: passkeyMethod.name, State: "off", Count: len(set.Keys), Actions: []page.SecurityAction{{Label: "security.passkey.add", URL: passkeyMethod.setUp}}}
	if len(set.Keys) > 0 {
		out.State = "on"
	}
	for _, k := range set.Keys {
		id := "?" + url.Values{"id": {k.ID}}.Encode()
		row := page.Row{
			Icon: "key", Name: k.Name, Details: []page.Text{page.Say("security.passkey.added", "time", k.Since)},
			Actions: []page.Action{{Label: "security.passkey.rename", URL: passkeysPath + "/name" + id}, {Label: "security.remove", URL: passkeysPath + "/remove" + id}},
		}
		if k.Name == "" {
			row.Title = page.Say("security.passkey.unnamed", "n", k.Number)
		}
		if !k.Used.IsZero() {
			row.Details = append(row.Details, page.Say("security.passkey.used", "time", k.Used))
		}
		if k.Suspect {
			row.Details = append(row.Details, page.Say("security.passkey.suspect"))
		}
		out.Items = append(out.Items, row)
	}
	return out, nil
}

// passkeyPage reads what the pages about passkeys share. Otherwise it has written the answer and is not ok.
func (s *Service) passkeyPage(w http.ResponseWriter, r *http.Request, self string) (si *signedIn, set passkeySetRecord, ok bool) {
	if !s.hasPasskeys() {
		s.Pages.Error(w, r, http.StatusNotFound, "error.not_found", "")
		return nil, set, false
	}
	if si, _, ok = s.requireSetUp(w, r, self); !ok {
		return nil, set, false
	}
	err := s.Store.View(r.Context(), func(tx storage.Tx) (err error) {
		set, err = readPasskeys(tx, si.session.PersonID)
		return err
	})
	if err != nil {
		s.fail(w, r, err, self)
		return nil, set, false
	}
	return si, set, true
}

// showAddPasskey serves GET /account/security/passkeys/add.
func (s *Service) showAddPasskey(w http.ResponseWriter, r *http.Request) {
	self, next := withFlow(passkeyMethod.setUp, r)
	if si, set, ok := s.passkeyPage(w, r, self); ok {
		s.addPasskeyPage(w, r, si, set, http.StatusOK, self, page.PasskeyAdd{Cancel: next})
	}
}

func (s *Service) addPasskeyPage(w http.ResponseWriter, r *http.Request, si *signedIn, set passkeySetRecord, status int, self string, in page.PasskeyAdd) {
	if len(set.Keys) >= maxPasskeys {
		in.Full = maxPasskeys
		s.Pages.Render(w, r, page.View{Template: "passkey_add", Status: status, Locales: si.locales(), Data: in})
		return
	}
	options, err := s.makeOptions(r.Context(), si)
	csrf := ""
	if err == nil {
		csrf, err = s.securityForm(w, r, si, "passkey")
	}
	if err != nil {
		s.fail(w, r, err, securityPath)
		return
	}
	in.Passkey = &page.Passkey{Action: self, Again: self, CSRF: csrf, Options: options, Create: true, Label: "security.passkey.add", Life: challengeSeconds}
	s.Pages.Render(w, r, page.View{Template: "passkey_add", Status: status, Locales: si.locales(), Client: s.leadsTo(r, r.URL.Query().Get("flow")), Data: in})
}

// makeOptions asks for a new passkey of the person: one that can be found without a username, on a device that has none of theirs yet.
func (s *Service) makeOptions(ctx context.Context, si *signedIn) (string, error) {
	person := si.session.PersonID
	fresh := make([]byte, handleBytes)
	if _, err := io.ReadFull(s.Random, fresh); err != nil {
		return "", err
	}
	challenge, err := s.passkeyChallenge(ctx, challengeAdd, si.id)
	if err != nil {
		return "", err
	}
	var set passkeySetRecord
	err = s.Store.Update(ctx, func(tx storage.Tx) error {
		if set, err = readPasskeys(tx, person); err != nil || len(set.Handle) > 0 {
			return err
		}
		set.Handle = fresh
		return putPasskeys(tx, person, set)
	})
	if err != nil {
		return "", err
	}
	name := si.person.Name
	if name == "" {
		name = si.person.Username
	}
	var algorithms []passkeyParameter
	for _, p := range passkeyAlgorithms() {
		algorithms = append(algorithms, passkeyParameter{string(p.Type), int64(p.Algorithm)})
	}
	return optionsText(passkeyOptions{
		Challenge: encodeBytes(challenge), Timeout: challengeLife.Milliseconds(), Attestation: "none", Parameters: algorithms, Exclude: describe(set.Keys),
		RP:        &passkeyName{ID: s.rp.Config.RPID, Name: s.rp.Config.RPDisplayName},
		User:      &passkeyName{ID: encodeBytes(set.Handle), Name: si.person.Username, DisplayName: name},
		Selection: &passkeySelection{ResidentKey: "required", RequireResidentKey: true, UserVerification: "required"},
	}), nil
}

// handleAddPasskey serves POST /account/security/passkeys/add.
func (s *Service) handleAddPasskey(w http.ResponseWriter, r *http.Request) {
	self, next := withFlow(passkeyMethod.setUp, r)
	si, set, ok := s.passkeyPage(w, r, self)
	if !ok || !s.checkSecurityForm(w, r, si, "passkey", self) {
		return
	}
	refuse := func(problem string) {
		s.addPasskeyPage(w, r, si, set, http.StatusUnprocessableEntity, self, page.PasskeyAdd{Cancel: next, Problem: problem})
	}
	challenge, err := s.spendChallenge(r.Context(), challengeAdd, si.id)
	if err == nil && challenge == nil {
		refuse("problem.passkey_late")
		return
	}
	var key passkeyRecord
	if err == nil {
		key, err = s.readAttestation(&set, challenge, r.PostForm.Get("credential"))
	}
	if err == nil {
		key, err = s.addPasskey(w, r, si, key)
	}
	switch {
	case errors.Is(err, errKnownPasskey):
		refuse("problem.passkey_known")
	case errors.Is(err, errMismatch):
		s.Log.Info("passkey refused", zap.String("person_id", si.session.PersonID), zap.NamedError("cause", err))
		refuse("problem.passkey_failed")
	case err != nil:
		s.fail(w, r, err, self)
	case next != securityPath:
		s.redirect(w, r, next) // on the way somewhere else
	default:
		s.redirect(w, r, passkeysPath+"/name?"+url.Values{"id": {key.ID}}.Encode())
	}
}

// addPasskey stores a passkey that was verified, and raises the session to what it is worth.
func (s *Service) addPasskey(w http.ResponseWriter, r *http.Request, si *signedIn, key passkeyRecord) (passkeyRecord, error) {
	person := si.session.PersonID
	var err error
	if key.ID, err = secret.ID(s.Random, 16); err != nil {
		return key, err
	}
	ev, err := s.newEvents(s.Origin(r), passkeyAdded)
	if err != nil {
		return key, err
	}
	now := s.Now()
	key.Since = now.Truncate(time.Second)
	return key, s.raise(w, r, raising{si: si, method: &passkeyMethod, passkey: key.ID, setUp: true, spend: func(tx storage.Tx, _ *stepUpRecord) (bool, error) {
		if _, err := s.maySetUp(tx, si); err != nil {
			return false, err
		}
		set, err := readPasskeys(tx, person)
		if err != nil || len(set.Keys) >= maxPasskeys || len(set.Handle) == 0 {
			return false, err
		}
		// Web Authentication Level 3 7.1, step 26: a credential id is nobody's twice.
		err = passkeyOwners.Create(tx, credentialKey(key.Credential), person, time.Time{})
		if errors.Is(err, storage.ErrExists) {
			return false, errKnownPasskey
		}
		if err != nil {
			return false, err
		}
		set.Made++
		key.Number = set.Made
		set.Keys = append(slices.Clone(set.Keys), key)
		if err := putPasskeys(tx, person, set); err != nil {
			return false, err
		}
		if err := s.tellPasskey(tx, person, &si.person, passkeyAdded, now); err != nil {
			return false, err
		}
		return true, s.Events.Append(tx, si.own(ev[0], ""))
	}})
}

// onePasskey reads which passkey a request is about. Otherwise it has written the answer and is not ok.
func (s *Service) onePasskey(w http.ResponseWriter, r *http.Request, path string) (si *signedIn, set passkeySetRecord, key passkeyRecord, self string, ok bool) {
	id := r.URL.Query().Get("id")
	if !isText(id, 64) {
		id = ""
	}
	self = path + "?" + url.Values{"id": {id}}.Encode()
	if si, set, ok = s.passkeyPage(w, r, self); !ok {
		return nil, set, key, self, false
	}
	i := set.byID(id)
	if i < 0 {
		s.Pages.Error(w, r, http.StatusNotFound, "error.not_found", "")
		return nil, set, key, self, false
	}
	return si, set, set.Keys[i], self, true
}

// showNamePasskey serves GET /account/security/passkeys/name?id=….
func (s *Service) showNamePasskey(w http.ResponseWriter, r *http.Request) {
	if si, _, key, self, ok := s.onePasskey(w, r, passkeyNamePath); ok {
		s.namePasskeyPage(w, r, si, http.StatusOK, page.PasskeyName{Action: self, Name: key.Name})
	}
}

func (s *Service) namePasskeyPage(w http.ResponseWriter, r *http.Request, si *signedIn, status int, in page.PasskeyName) {
	var err error
	if in.CSRF, err = s.securityForm(w, r, si, "passkey name"); err != nil {
		s.fail(w, r, err, securityPath)
		return
	}
	in.Cancel = securityPath
	s.Pages.Render(w, r, page.View{Template: "passkey_name", Status: status, Locales: si.locales(), Data: in})
}

// handleNamePasskey serves POST /account/security/passkeys/name?id=….
func (s *Service) handleNamePasskey(w http.ResponseWriter, r *http.Request) {
	si, _, key, self, ok := s.onePasskey(w, r, passkeyNamePath)
	if !ok || !s.checkSecurityForm(w, r, si, "passkey name", self) {
		return
	}
	name := strings.TrimSpace(r.PostForm.Get("name"))
	if name == "" || !isText(name, maxPasskeyName) {
		s.namePasskeyPage(w, r, si, http.StatusUnprocessableEntity, page.PasskeyName{Action: self, Name: key.Name, Problem: "problem.passkey_name"})
		return
	}
	err := s.changePasskey(r, si, passkeyRenamed, name, func(tx storage.Tx, set *passkeySetRecord, i int) error {
		set.Keys[i].Name = name
		return putPasskeys(tx, si.session.PersonID, *set)
	}, key.ID)
	if err != nil && !errors.Is(err, errMismatch) {
		s.fail(w, r, err, self)
		return
	}
	s.redirect(w, r, securityPath)
}

// changePasskey changes one passkey in a transaction, with its event. errMismatch: by now it is gone, or the session may not.
func (s *Service) changePasskey(r *http.Request, si *signedIn, kind event.Type, reason string, change func(tx storage.Tx, set *passkeySetRecord, i int) error, id string) error {
	ev, err := s.newEvents(s.Origin(r), kind)
	if err != nil {
		return err
	}
	return s.Store.Update(r.Context(), func(tx storage.Tx) error {
		if _, err := s.maySetUp(tx, si); err != nil {
			return err
		}
		set, err := readPasskeys(tx, si.session.PersonID)
		if err != nil {
			return err
		}
		i := set.byID(id)
		if i < 0 {
			return errMismatch
		}
		set.Keys = slices.Clone(set.Keys)
		if err := change(tx, &set, i); err != nil {
			return err
		}
		return s.Events.Append(tx, si.own(ev[0], reason))
	})
}

// errLastWay says that without it a person could not sign in any more.
var errLastWay = errors.New("identity: it is the only way in")

// mayGo returns errLastWay when a person could not sign in any more without one of their passkeys.
func (s *Service) mayGo(tx storage.Tx, person string, rec *personRecord, set *passkeySetRecord, id string) error {
	u, err := s.Units(tx)
	if err != nil {
		return err
	}
	elsewhere, err := coupledOf(tx, person)
	if err != nil {
		return err
	}
	rest := slices.DeleteFunc(set.usable(), func(k passkeyRecord) bool { return k.ID == id })
	ok, err := s.hasWayIn(tx, u, person, rec, elsewhere, rest)
	if err == nil && !ok {
		err = errLastWay
	}
	return err
}

// showRemovePasskey serves GET /account/security/passkeys/remove?id=…: it asks, and changes nothing.
func (s *Service) showRemovePasskey(w http.ResponseWriter, r *http.Request) {
	si, _, key, self, ok := s.onePasskey(w, r, passkeyRemovePath)
	if !ok {
		return
	}
	csrf, err := s.securityForm(w, r, si, "passkey remove")
	if err != nil {
		s.fail(w, r, err, securityPath)
		return
	}
	name := key.Name
	if name == "" {
		name = strconv.Itoa(key.Number)
	}
	s.Pages.Render(w, r, page.View{Template: "confirm", Locales: si.locales(), Data: page.Confirm{
		Key: "remove.passkey", Name: name, Action: self, CSRF: csrf, Cancel: securityPath,
	}})
}

// handleRemovePasskey serves POST /account/security/passkeys/remove?id=….
func (s *Service) handleRemovePasskey(w http.ResponseWriter, r *http.Request) {
	si, _, key, self, ok := s.onePasskey(w, r, passkeyRemovePath)
	if !ok || !s.checkSecurityForm(w, r, si, "passkey remove", self) {
		return
	}
	person, now := si.session.PersonID, s.Now()
	err := s.changePasskey(r, si, passkeyRemoved, key.Name, func(tx storage.Tx, set *passkeySetRecord, _ int) error {
		rec, err := persons.Get(tx, person)
		if err != nil {
			return err
		}
		if err := s.mayGo(tx, person, &rec, set, key.ID); err != nil {
			return err
		}
		if _, err := dropPasskeys(tx, person, key.ID); err != nil {
			return err
		}
		if err := s.lowerSessions(tx, person, passkeyMethod.name, key.ID); err != nil {
			return err
		}
		return s.tellPasskey(tx, person, &rec, passkeyRemoved, now)
	}, key.ID)
	switch {
	case errors.Is(err, errLastWay):
		s.Pages.Render(w, r, page.View{Template: "message", Status: http.StatusConflict, Locales: si.locales(), Data: page.Message{Key: "passkey_last", Next: securityPath}})
	case err != nil && !errors.Is(err, errMismatch):
		s.fail(w, r, err, self)
	default:
		s.redirect(w, r, securityPath)
	}
}

// tellPasskey tells a person that a passkey was added, removed or suspected of having a copy. No switch of the configuration is about it: whoever
// can send tells it.
func (s *Service) tellPasskey(tx storage.Tx, person string, rec *personRecord, kind event.Type, now time.Time) error {
	if s.Notify == nil {
		return nil
	}
	prof, err := readProfile(tx, person, rec)
	if err != nil {
		return err
	}
	kinds := map[event.Type]notify.Kind{passkeyAdded: notify.PasskeyAdded, passkeyRemoved: notify.PasskeyRemoved, passkeySuspected: notify.PasskeySuspected}
	n := told{id: person, rec: rec, profile: &prof.Profile}.notice(kinds[kind], now)
	n.Link = securityPath
	return s.send(tx, n)
}
