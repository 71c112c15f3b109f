package main

import (
	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc/eventlog"
)

const (
	source  = "PaceNode" // in the Application log
	eventID = 1
)

// commandLine is this process's, as it was given.
func commandLine() string { return windows.UTF16PtrToString(windows.GetCommandLine()) }

// report writes to the Application log. Where that is not to be had, the exit status has to do.
func report(text string) {
	log, err := eventlog.Open(source)
	if err != nil {
		return
	}
	defer log.Close()
	log.Error(eventID, text) // nobody is there to be told of a failure
}
