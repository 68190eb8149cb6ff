package providers

import (
	"errors"
	"net/url"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// iconOf returns the picture of a login method. nil: none
func (s *setup) iconOf(m *settings.LoginMethod, stored *web.Logo) *web.Image {
	if m.Removable {
		return stored.Image()
	}
	return s.Pages.DeclaredLogo(web.ProviderLogo, m.ID)
}

func (s *setup) setIcon(v *layout.Visit, raw []byte) error {
	return iconError(s.Config.SetLogo(write(v), providerOf(v).ID, raw, v.Actor()))
}

func (s *setup) removeIcon(v *layout.Visit, _ url.Values) (layout.Result, error) {
	return layout.Result{}, iconError(s.Config.RemoveLogo(write(v), providerOf(v).ID, v.Actor()))
}

// iconError returns the problem of a provider that was removed meanwhile. Other errors stay.
func iconError(err error) error {
	if errors.Is(err, settings.ErrNoMethod) {
		return &layout.Problem{Key: "console.problem.gone"}
	}
	return err
}
