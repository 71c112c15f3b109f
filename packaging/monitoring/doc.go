// Package monitoring holds what a monitoring system reads: alert rules for Prometheus and a dashboard for Grafana. It has
// tests only, which hold both against the registry's table and have promtool judge them.
package monitoring
