package account

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/webflow"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const deletePath = webflow.DataPath + "/delete"

// showDelete serves GET /account/data/delete: it explains what is lost and asks for a confirmation.
func (s *Service) showDelete(q *webflow.Request) error {
	a, err := s.deps.Front.VisitOf(q, deletePath, changePasswordLevel)
	if err != nil {
		return err
	}
	var owner person.Holder
	err = s.deps.Store.View(q.Context(), func(tx storage.Tx) (err error) {
		owner, err = readOwner(tx, a.SignIn)
		return err
	})
	if err != nil {
		return err
	}
	return s.renderDelete(a, owner, http.StatusOK, web.Dashboard{}, "")
}

// renderDelete asks for the password, or for the username if there is no password.
func (s *Service) renderDelete(a *webflow.Visit, owner person.Holder, status int, d web.Dashboard, problem string) error {
	field := web.Field{
		Name: "password", Type: "password", Label: "account.password.current", Autocomplete: "current-password",
		Required: true, Problem: problem,
	}
	if owner.PHC == "" {
		field = web.Field{
			Name: "username", Label: "data.delete.type", LabelFill: []any{"account", owner.Person.Username},
			Required: true, Problem: problem,
		}
	}
	d.Key, d.Cancel = "delete", webflow.DataPath
	d.Parts = []web.Part{{Form: &web.PartForm{
		Action: deletePath, CSRF: a.CSRF, Submit: "data.delete.submit", Danger: true,
		Fields: web.Fields(d.Problem != "", field),
	}}}
	return s.render(a, status, d)
}

// handleDelete serves POST /account/data/delete: everything of the person ends, and the username is free.
func (s *Service) handleDelete(q *webflow.Request) error {
	a, err := s.deps.Front.VisitPost(q, deletePath, changePasswordLevel)
	if err != nil {
		return err
	}
	var owner person.Holder
	var granted []authn.Application
	now := s.deps.Now()
	err = s.deps.Store.View(q.Context(), func(tx storage.Tx) (err error) {
		if owner, err = readOwner(tx, a.SignIn); err != nil {
			return err
		}
		granted, err = s.apps.Applications(tx, owner.ID, now)
		return err
	})
	if err != nil {
		return err
	}
	if owner.PHC != "" {
		wait, err := s.confirmPassword(a, owner, q.PostForm.Get("password"))
		switch {
		case errors.Is(err, person.ErrMismatch):
			return s.renderDelete(a, owner, http.StatusUnprocessableEntity, web.Dashboard{}, "problem.password_current")
		case err != nil:
			return err
		case wait > 0:
			return s.renderDelete(a, owner, http.StatusTooManyRequests, throttle(a, wait), "")
		}
	} else if strings.TrimSpace(q.PostForm.Get("username")) != owner.Person.Username {
		return s.renderDelete(a, owner, http.StatusUnprocessableEntity, web.Dashboard{}, "problem.delete_username")
	}
	err = s.deps.Person.RemovePerson(q.Context(), owner.ID, s.actor(a),
		func(tx storage.Tx, _ *person.Details) error { return s.recheck(tx, a, now) })
	switch {
	case errors.Is(err, person.ErrMismatch), errors.Is(err, person.ErrNoPerson):
		return q.Redirect(webflow.DataPath)
	case err != nil:
		return err
	}
	s.withdrawAll(a, granted)
	s.deps.Session.ClearCookies(a.W, q.Request)
	s.deps.Pages.Render(q.W, q.Request,
		web.View{Template: "message", Locales: a.SignIn.Locales(), Data: web.Message{Key: "deleted", Next: "/sign-in"}})
	return nil
}

// withdrawAll forgets what a removed person had granted to applications. The grants are invalid already, so a failure
// is only logged.
func (s *Service) withdrawAll(a *webflow.Visit, granted []authn.Application) {
	by := s.caller(a)
	ctx := context.WithoutCancel(a.Context())
	for _, app := range granted {
		if _, err := s.apps.WithdrawConsent(ctx, by.ID, app.ID, by); err != nil {
			s.deps.Log.Error("consent of a removed person not forgotten",
				zap.String("person_id", by.ID), zap.String("client_id", app.ID), zap.Error(err))
		}
	}
}
