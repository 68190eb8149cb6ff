package account

import (
	"github.com/gatehouse-id/gatehouse/identity/webflow"
)

// Routes adds the pages of a person's own account.
func (s *Service) Routes(mux webflow.Router) {
	mux.Handle(webflow.CompletePath, s.front.Pages(s.showComplete, s.handleComplete))
	mux.Handle("/account", s.front.Pages(s.showAccount, nil))
	mux.Handle(webflow.ProfilePath, s.front.Pages(s.showProfile, s.handleProfile))
	mux.Handle(contactPath, s.front.Pages(nil, s.handleContact))
	mux.Handle(addressPath, s.front.Pages(s.showAddress, s.handleAddress))
	mux.Handle(confirmPath, s.front.Pages(s.showConfirm, s.handleConfirm))
	mux.Handle(webflow.ActivityPath, s.front.Pages(s.showActivity, nil))
	mux.Handle(webflow.DataPath, s.front.Pages(s.showData, nil))
	mux.Handle(downloadPath, s.front.Pages(s.showDownload, nil))
	mux.Handle(deletePath, s.front.Pages(s.showDelete, s.handleDelete))
	mux.Handle(identitiesPath, s.front.Pages(s.showIdentities, s.handleIdentities))
	mux.Handle(webflow.ApplicationsPath, s.front.Pages(s.showApplications, s.handleApplications))
	mux.Handle(webflow.DevicesPath, s.front.Pages(s.showDevices, s.handleDevices))
	mux.Handle(anotherDevicePath, s.front.Pages(s.showAnotherDevice, s.handleAnotherDevice))
	mux.Handle(appPasswordsPath, s.front.Pages(s.showAppPasswords, s.handleAppPasswords))
	mux.Handle(passwordPath, s.front.Pages(s.showPassword, s.handlePassword))
}
