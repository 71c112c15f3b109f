// Package target is the node's side of provisioning: it tells what this machine is, whether it wants to be provisioned,
// and carries out the steps that the fleet's leader sends. Its one job is the folder "provisioned", which it changes only
// as a whole: a step that fails, or a crash at any moment, leaves the configuration that was there or the new one, byte
// for byte, never a mixture.
//
// It must never look at the leader's queue, judge a lease (whoever calls Work has), follow a link out of its folder, or
// show the value of a setting, a key or a file in a log or an error.
package target
