package account

import (
	"github.com/gatehouse-id/gatehouse/identity/front"
)

// Routes: the pages of a person's own account.
func (s *Service) Routes(mux front.Router) {
	mux.Handle(front.CompletePath, s.front.Methods(s.showComplete, s.handleComplete))
	mux.Handle("/account", s.front.Methods(s.showAccount, nil))
	mux.Handle(front.ProfilePath, s.front.Methods(s.showProfile, s.handleProfile))
	mux.Handle(contactPath, s.front.Methods(nil, s.handleContact))
	mux.Handle(addressPath, s.front.Methods(s.showAddress, s.handleAddress))
	mux.Handle(confirmPath, s.front.Methods(s.showConfirm, s.handleConfirm))
	mux.Handle(front.ActivityPath, s.front.Methods(s.showActivity, nil))
	mux.Handle(front.DataPath, s.front.Methods(s.showData, nil))
	mux.Handle(downloadPath, s.front.Methods(s.handleDownload, nil))
	mux.Handle(deletePath, s.front.Methods(s.showDelete, s.handleDelete))
	mux.Handle(identitiesPath, s.front.Methods(s.showIdentities, s.handleIdentities))
	mux.Handle(front.ApplicationsPath, s.front.Methods(s.showApplications, s.handleApplications))
	mux.Handle(front.DevicesPath, s.front.Methods(s.showDevices, s.handleDevices))
	mux.Handle(anotherDevicePath, s.front.Methods(s.showAnotherDevice, s.handleAnotherDevice))
	mux.Handle(passwordPath, s.front.Methods(s.showPassword, s.handlePassword))
}
