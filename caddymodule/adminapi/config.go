package adminapi

import (
	"io"
	"net/http"

	"github.com/gatehouse-id/gatehouse/identity/settings"
)

func adminExportConfig(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	return i.Config.Export(r.Context())
}

func adminImportConfig(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, badRequest{err}
	}
	return i.Config.Import(settings.WithRights(r.Context(), settings.Owner), raw, caller(r))
}

func adminDiffConfig(i *Instance, _ http.ResponseWriter, r *http.Request) (any, error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, badRequest{err}
	}
	return i.Config.Diff(r.Context(), raw)
}
