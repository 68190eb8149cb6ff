package account

import (
	"github.com/gatehouse-id/gatehouse/identity/webflow"
)

// Routes adds the pages of a person's own account.
func (s *Service) Routes(mux webflow.Router) {
	mux.Handle(webflow.CompletePath, s.deps.Front.Pages(s.showComplete, s.handleComplete))
	mux.Handle("/account", s.deps.Front.Pages(s.showAccount, nil))
	mux.Handle(webflow.ProfilePath, s.deps.Front.Pages(s.showProfile, s.handleProfile))
	mux.Handle(contactPath, s.deps.Front.Pages(nil, s.handleContact))
	mux.Handle(addressPath, s.deps.Front.Pages(s.showAddress, s.handleAddress))
	mux.Handle(confirmPath, s.deps.Front.Pages(s.showConfirm, s.handleConfirm))
	mux.Handle(webflow.ActivityPath, s.deps.Front.Pages(s.showActivity, nil))
	mux.Handle(webflow.DataPath, s.deps.Front.Pages(s.showData, nil))
	mux.Handle(downloadPath, s.deps.Front.Pages(s.showDownload, nil))
	mux.Handle(deletePath, s.deps.Front.Pages(s.showDelete, s.handleDelete))
	mux.Handle(identitiesPath, s.deps.Front.Pages(s.showIdentities, s.handleIdentities))
	mux.Handle(webflow.ApplicationsPath, s.deps.Front.Pages(s.showApplications, s.handleApplications))
	mux.Handle(webflow.DevicesPath, s.deps.Front.Pages(s.showDevices, s.handleDevices))
	mux.Handle(anotherDevicePath, s.deps.Front.Pages(s.showAnotherDevice, s.handleAnotherDevice))
	mux.Handle(appPasswordsPath, s.deps.Front.Pages(s.showAppPasswords, s.handleAppPasswords))
	mux.Handle(passwordPath, s.deps.Front.Pages(s.showPassword, s.handlePassword))
}
