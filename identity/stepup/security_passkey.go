package stepup

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

	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/identity/notify"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const maxPasskeyName = 64 // characters

// errKnownPasskey says that a credential is somebody's already.
var errKnownPasskey = errors.New("identity: the passkey is there already")

func passkeySection(tx storage.Tx, si *session.Current, st *Standing) (*page.SecuritySection, error) {
	if !slices.Contains(st.All, &passkeyMethod) {
		return nil, nil //nolint:nilnil // switched off
	}
	set, err := ReadPasskeys(tx, si.Session.PersonID)
	if err != nil {
		return nil, err
	}
	out := &page.SecuritySection{Key: passkeyMethod.Name, State: "off", Count: len(set.Keys), Actions: []page.SecurityAction{{Label: "security.passkey.add", URL: passkeyMethod.setUp}}}
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
func (s *Service) passkeyPage(w http.ResponseWriter, r *http.Request, self string) (si *session.Current, set passkeySetRecord, ok bool) {
	if !s.HasPasskeys() {
		s.pages.Error(w, r, http.StatusNotFound, "error.not_found", "")
		return nil, set, false
	}
	if si, _, ok = s.RequireSetUp(w, r, self); !ok {
		return nil, set, false
	}
	err := s.store.View(r.Context(), func(tx storage.Tx) (err error) {
		set, err = ReadPasskeys(tx, si.Session.PersonID)
		return err
	})
	if err != nil {
		s.front.Fail(w, r, err, self)
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

func (s *Service) addPasskeyPage(w http.ResponseWriter, r *http.Request, si *session.Current, set passkeySetRecord, status int, self string, in page.PasskeyAdd) {
	if len(set.Keys) >= maxPasskeys {
		in.Full = maxPasskeys
		s.pages.Render(w, r, page.View{Template: "passkey_add", Status: status, Locales: si.Locales(), Data: in})
		return
	}
	options, err := s.makeOptions(r.Context(), si)
	csrf := ""
	if err == nil {
		csrf, err = s.front.SecurityForm(w, r, si, "passkey")
	}
	if err != nil {
		s.front.Fail(w, r, err, front.SecurityPath)
		return
	}
	in.Passkey = &page.Passkey{Action: self, Again: self, CSRF: csrf, Options: options, Create: true, Label: "security.passkey.add", Life: ChallengeSeconds}
	s.pages.Render(w, r, page.View{Template: "passkey_add", Status: status, Locales: si.Locales(), Client: s.leadsTo(r, r.URL.Query().Get("flow")), Data: in})
}

// makeOptions asks for a new passkey of the person: one that can be found without a username, on a device that has none of theirs yet.
func (s *Service) makeOptions(ctx context.Context, si *session.Current) (string, error) {
	person := si.Session.PersonID
	fresh := make([]byte, handleBytes)
	if _, err := io.ReadFull(s.random, fresh); err != nil {
		return "", err
	}
	challenge, err := s.PasskeyChallenge(ctx, challengeAdd, si.ID)
	if err != nil {
		return "", err
	}
	var set passkeySetRecord
	err = s.store.Update(ctx, func(tx storage.Tx) error {
		if set, err = ReadPasskeys(tx, person); err != nil || len(set.Handle) > 0 {
			return err
		}
		set.Handle = fresh
		return putPasskeys(tx, person, set)
	})
	if err != nil {
		return "", err
	}
	name := si.Person.Name
	if name == "" {
		name = si.Person.Username
	}
	var algorithms []passkeyParameter
	for _, p := range passkeyAlgorithms() {
		algorithms = append(algorithms, passkeyParameter{string(p.Type), int64(p.Algorithm)})
	}
	return optionsText(passkeyOptions{
		Challenge: encodeBytes(challenge), Timeout: challengeLife.Milliseconds(), Attestation: "none", Parameters: algorithms, Exclude: describe(set.Keys),
		RP:        &passkeyName{ID: s.rp.Config.RPID, Name: s.rp.Config.RPDisplayName},
		User:      &passkeyName{ID: encodeBytes(set.Handle), Name: si.Person.Username, DisplayName: name},
		Selection: &passkeySelection{ResidentKey: "required", RequireResidentKey: true, UserVerification: "required"},
	}), nil
}

// handleAddPasskey serves POST /account/security/passkeys/add.
func (s *Service) handleAddPasskey(w http.ResponseWriter, r *http.Request) {
	self, next := withFlow(passkeyMethod.setUp, r)
	si, set, ok := s.passkeyPage(w, r, self)
	if !ok || !s.front.CheckSecurityForm(w, r, si, "passkey", self) {
		return
	}
	refuse := func(problem string) {
		s.addPasskeyPage(w, r, si, set, http.StatusUnprocessableEntity, self, page.PasskeyAdd{Cancel: next, Problem: problem})
	}
	challenge, err := s.SpendChallenge(r.Context(), challengeAdd, si.ID)
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
	case errors.Is(err, person.ErrMismatch):
		s.log.Info("passkey refused", zap.String("person_id", si.Session.PersonID), zap.NamedError("cause", err))
		refuse("problem.passkey_failed")
	case err != nil:
		s.front.Fail(w, r, err, self)
	case next != front.SecurityPath:
		s.front.Redirect(w, r, next) // on the way somewhere else
	default:
		s.front.Redirect(w, r, passkeysPath+"/name?"+url.Values{"id": {key.ID}}.Encode())
	}
}

// addPasskey stores a passkey that was verified, and raises the session to what it is worth.
func (s *Service) addPasskey(w http.ResponseWriter, r *http.Request, si *session.Current, key passkeyRecord) (passkeyRecord, error) {
	person := si.Session.PersonID
	var err error
	if key.ID, err = secret.ID(s.random, 16); err != nil {
		return key, err
	}
	ev, err := s.person.NewEvents(s.origin(r), passkeyAdded)
	if err != nil {
		return key, err
	}
	now := s.now()
	key.Since = now.Truncate(time.Second)
	return key, s.raise(w, r, raise{si: si, method: &passkeyMethod, passkey: key.ID, setUp: true, spend: func(tx storage.Tx, _ *Record) (bool, error) {
		if _, err := s.MaySetUp(tx, si); err != nil {
			return false, err
		}
		set, err := ReadPasskeys(tx, person)
		if err != nil || len(set.Keys) >= maxPasskeys || len(set.Handle) == 0 {
			return false, err
		}
		// Web Authentication Level 3 7.1, step 26: a credential id is nobody's twice.
		err = passkeyOwners.Create(tx, CredentialKey(key.Credential), person, time.Time{})
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
		if err := s.tellPasskey(tx, person, &si.Person, passkeyAdded, now); err != nil {
			return false, err
		}
		return true, s.events.Append(tx, si.OwnEvent(ev[0], ""))
	}})
}

// onePasskey reads which passkey a request is about. Otherwise it has written the answer and is not ok.
func (s *Service) onePasskey(w http.ResponseWriter, r *http.Request, path string) (si *session.Current, set passkeySetRecord, key passkeyRecord, self string, ok bool) {
	id := r.URL.Query().Get("id")
	if !person.IsText(id, 64) {
		id = ""
	}
	self = path + "?" + url.Values{"id": {id}}.Encode()
	if si, set, ok = s.passkeyPage(w, r, self); !ok {
		return nil, set, key, self, false
	}
	i := set.byID(id)
	if i < 0 {
		s.pages.Error(w, r, http.StatusNotFound, "error.not_found", "")
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

func (s *Service) namePasskeyPage(w http.ResponseWriter, r *http.Request, si *session.Current, status int, in page.PasskeyName) {
	var err error
	if in.CSRF, err = s.front.SecurityForm(w, r, si, "passkey name"); err != nil {
		s.front.Fail(w, r, err, front.SecurityPath)
		return
	}
	in.Cancel = front.SecurityPath
	s.pages.Render(w, r, page.View{Template: "passkey_name", Status: status, Locales: si.Locales(), Data: in})
}

// handleNamePasskey serves POST /account/security/passkeys/name?id=….
func (s *Service) handleNamePasskey(w http.ResponseWriter, r *http.Request) {
	si, _, key, self, ok := s.onePasskey(w, r, passkeyNamePath)
	if !ok || !s.front.CheckSecurityForm(w, r, si, "passkey name", self) {
		return
	}
	name := strings.TrimSpace(r.PostForm.Get("name"))
	if name == "" || !person.IsText(name, maxPasskeyName) {
		s.namePasskeyPage(w, r, si, http.StatusUnprocessableEntity, page.PasskeyName{Action: self, Name: key.Name, Problem: "problem.passkey_name"})
		return
	}
	err := s.changePasskey(r, si, passkeyRenamed, name, func(tx storage.Tx, set *passkeySetRecord, i int) error {
		set.Keys[i].Name = name
		return putPasskeys(tx, si.Session.PersonID, *set)
	}, key.ID)
	if err != nil && !errors.Is(err, person.ErrMismatch) {
		s.front.Fail(w, r, err, self)
		return
	}
	s.front.Redirect(w, r, front.SecurityPath)
}

// changePasskey changes one passkey in a transaction, with its event. person.ErrMismatch: by now it is gone, or the session may not.
func (s *Service) changePasskey(r *http.Request, si *session.Current, kind event.Type, reason string, change func(tx storage.Tx, set *passkeySetRecord, i int) error, id string) error {
	ev, err := s.person.NewEvents(s.origin(r), kind)
	if err != nil {
		return err
	}
	return s.store.Update(r.Context(), func(tx storage.Tx) error {
		if _, err := s.MaySetUp(tx, si); err != nil {
			return err
		}
		set, err := ReadPasskeys(tx, si.Session.PersonID)
		if err != nil {
			return err
		}
		i := set.byID(id)
		if i < 0 {
			return person.ErrMismatch
		}
		set.Keys = slices.Clone(set.Keys)
		if err := change(tx, &set, i); err != nil {
			return err
		}
		return s.events.Append(tx, si.OwnEvent(ev[0], reason))
	})
}

// ErrLastWay says that without it a person could not sign in any more.
var ErrLastWay = errors.New("identity: it is the only way in")

// mayGo returns ErrLastWay when a person could not sign in any more without one of their passkeys.
func (s *Service) mayGo(tx storage.Tx, personID string, rec *person.Record, set *passkeySetRecord, id string) error {
	u, err := s.units(tx)
	if err != nil {
		return err
	}
	elsewhere, err := person.CoupledIdentities(tx, personID)
	if err != nil {
		return err
	}
	rest := slices.DeleteFunc(set.Usable(), func(k passkeyRecord) bool { return k.ID == id })
	ok, err := s.HasWayIn(tx, u, personID, rec, elsewhere, rest)
	if err == nil && !ok {
		err = ErrLastWay
	}
	return err
}

// showRemovePasskey serves GET /account/security/passkeys/remove?id=…: it asks, and changes nothing.
func (s *Service) showRemovePasskey(w http.ResponseWriter, r *http.Request) {
	si, _, key, self, ok := s.onePasskey(w, r, passkeyRemovePath)
	if !ok {
		return
	}
	csrf, err := s.front.SecurityForm(w, r, si, "passkey remove")
	if err != nil {
		s.front.Fail(w, r, err, front.SecurityPath)
		return
	}
	name := key.Name
	if name == "" {
		name = strconv.Itoa(key.Number)
	}
	s.pages.Render(w, r, page.View{Template: "confirm", Locales: si.Locales(), Data: page.Confirm{
		Key: "remove.passkey", Name: name, Action: self, CSRF: csrf, Cancel: front.SecurityPath,
	}})
}

// handleRemovePasskey serves POST /account/security/passkeys/remove?id=….
func (s *Service) handleRemovePasskey(w http.ResponseWriter, r *http.Request) {
	si, _, key, self, ok := s.onePasskey(w, r, passkeyRemovePath)
	if !ok || !s.front.CheckSecurityForm(w, r, si, "passkey remove", self) {
		return
	}
	personID, now := si.Session.PersonID, s.now()
	err := s.changePasskey(r, si, passkeyRemoved, key.Name, func(tx storage.Tx, set *passkeySetRecord, _ int) error {
		rec, err := person.Records.Get(tx, personID)
		if err != nil {
			return err
		}
		if err := s.mayGo(tx, personID, &rec, set, key.ID); err != nil {
			return err
		}
		if _, err := dropPasskeys(tx, personID, key.ID); err != nil {
			return err
		}
		if err := s.session.LowerSessions(tx, personID, passkeyMethod.Name, key.ID); err != nil {
			return err
		}
		return s.tellPasskey(tx, personID, &rec, passkeyRemoved, now)
	}, key.ID)
	switch {
	case errors.Is(err, ErrLastWay):
		s.pages.Render(w, r, page.View{Template: "message", Status: http.StatusConflict, Locales: si.Locales(), Data: page.Message{Key: "passkey_last", Next: front.SecurityPath}})
	case err != nil && !errors.Is(err, person.ErrMismatch):
		s.front.Fail(w, r, err, self)
	default:
		s.front.Redirect(w, r, front.SecurityPath)
	}
}

// tellPasskey tells a person that a passkey was added, removed or suspected of having a copy. No switch of the configuration is about it: whoever
// can send tells it.
func (s *Service) tellPasskey(tx storage.Tx, personID string, rec *person.Record, kind event.Type, now time.Time) error {
	if s.notify == nil {
		return nil
	}
	prof, err := person.ReadProfile(tx, personID, rec)
	if err != nil {
		return err
	}
	kinds := map[event.Type]notify.Kind{passkeyAdded: notify.PasskeyAdded, passkeyRemoved: notify.PasskeyRemoved, passkeySuspected: notify.PasskeySuspected}
	n := person.Recipient{ID: personID, Rec: rec, Profile: &prof.Profile}.Notice(kinds[kind], now)
	n.Link = front.SecurityPath
	return s.person.SendNotice(tx, n)
}
