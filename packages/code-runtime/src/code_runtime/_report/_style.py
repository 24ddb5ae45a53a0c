"""The style sheet of the page; it names no font, image or other thing that must be fetched."""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root {
  color-scheme: light dark;
  --page: #f6f7f9; --card: #fff; --ink: #1b2027; --soft: #57606c; --rule: #dde1e7;
  --faint: #eef0f4; --accent: #1f5fc4; --good: #17703a; --bad: #b3261e; --odd: #855400;
  --bad-wash: #fdeceb; --call-wash: #fff6e0; --mark: #ffd4d0;
  --mono: ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace;
  --sans: system-ui, -apple-system, "Segoe UI", Roboto, "Open Sans", sans-serif;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #12151a; --card: #1a1e25; --ink: #e4e8ee; --soft: #a3adba; --rule: #303742;
    --faint: #232933; --accent: #83b1ff; --good: #6fd08c; --bad: #ff8d85; --odd: #f0b95a;
    --bad-wash: #3a1f21; --call-wash: #332a18; --mark: #74312f;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 var(--sans); overflow-wrap: anywhere;
}
header, main, footer { max-width: 1440px; margin: 0 auto; padding: 0 24px; }
header { padding-top: 28px; }
h1 { margin: 0; font-size: 22px; line-height: 1.3; font-weight: 650; letter-spacing: -0.01em; }
h2 { margin: 0; font-size: 15px; font-weight: 650; }
a { color: var(--accent); text-underline-offset: 2px; }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px; border-radius: 3px; }
.status { display: flex; gap: 10px; align-items: center; flex-wrap: wrap; }
.pill {
  padding: 2px 10px; border: 1.5px solid; border-radius: 99px; font-size: 13px; font-weight: 650;
}
.good { color: var(--good); } .bad { color: var(--bad); } .odd { color: var(--odd); }
.totals { display: flex; flex-wrap: wrap; gap: 4px 28px; margin: 12px 0 20px; padding: 0; }
.totals div { display: flex; gap: 7px; align-items: baseline; }
.totals dt { color: var(--soft); font-size: 13px; }
.totals dd { margin: 0; font-weight: 600; font-variant-numeric: tabular-nums; }
main { display: grid; gap: 16px; grid-template-columns: minmax(0, 1fr); align-items: start; }
@media (min-width: 1040px) {
  main { grid-template-columns: minmax(0, 9fr) minmax(0, 11fr); }
  .wide { grid-column: 1 / -1; }
}
section {
  background: var(--card); border: 1px solid var(--rule); border-radius: 10px; overflow: hidden;
}
.head {
  display: flex; gap: 4px 16px; justify-content: space-between; align-items: baseline;
  flex-wrap: wrap; padding: 11px 16px; border-bottom: 1px solid var(--rule);
}
.head p, .note, footer { margin: 0; color: var(--soft); font-size: 13px; }
.text, .source, .log, .io {
  font: 13px/1.55 var(--mono); tab-size: 4; unicode-bidi: isolate; direction: ltr;
}
.text, .source code, .log, .io dd { white-space: pre-wrap; }
.text { margin: 0; padding: 12px 16px; }
.long { max-height: 480px; max-height: min(480px, 70vh); overflow: auto; }
.empty .head { border-bottom: 0; }
.failed { border-color: var(--bad); }
.failed .head { border-color: var(--bad); background: var(--bad-wash); }
.source { margin: 0; padding: 8px 0; list-style: none; }
.source li {
  display: grid; grid-template-columns: var(--gutter, 56px) minmax(0, 1fr);
  border-left: 3px solid transparent; padding-right: 16px; scroll-margin: 40vh;
}
.source .n { padding-right: 14px; text-align: right; color: var(--soft); user-select: none; }
.source code { font: inherit; min-height: 1.55em; }
.source .gap, .rows .gap { color: var(--soft); font-style: italic; }
.source .fails { background: var(--bad-wash); border-left-color: var(--bad); }
.source .fails .n { color: var(--bad); font-weight: 700; }
.source .calls { background: var(--call-wash); border-left-color: var(--odd); }
.source small { grid-column: 2; font: 600 12px/1.6 var(--sans); }
.source .fails small { color: var(--bad); } .source .calls small { color: var(--odd); }
mark { background: var(--mark); color: inherit; border-radius: 2px; text-decoration: underline; }
fieldset { border: 0; margin: 0; padding: 0; display: flex; gap: 14px; font-size: 13px; }
fieldset label { display: flex; gap: 5px; align-items: center; }
input { margin: 0; accent-color: var(--accent); }
section:has(#show-logs:checked) .call, section:has(#show-calls:checked) .log-row,
section:has(#show-calls:checked) .log-gap, section:has(#show-logs:checked) .call-gap,
section:has(#show-bad:checked) :is(.log-row, .is-ok, .log-gap, .call-gap) { display: none; }
.rows { margin: 0; padding: 4px 0; list-style: none; }
.rows > li + li { border-top: 1px solid var(--faint); }
.row {
  display: grid; gap: 0 14px; padding: 5px 16px; align-items: baseline;
  grid-template-columns: 74px minmax(90px, 2fr) minmax(0, 3fr);
  grid-template-areas: "time track what";
}
.axis { padding-top: 8px; padding-bottom: 4px; border-bottom: 1px solid var(--rule); }
.axis, .time { color: var(--soft); font-size: 12px; font-variant-numeric: tabular-nums; }
.time { grid-area: time; text-align: right; white-space: nowrap; }
.track { grid-area: track; align-self: start; padding-top: 4px; }
.what { grid-area: what; min-width: 0; }
.scale { grid-area: track; display: flex; justify-content: space-between; }
.track svg { display: block; width: 100%; height: 14px; overflow: visible; }
.lane { fill: var(--faint); } .tick { fill: var(--soft); }
.bar { fill: currentColor; }
.call .row { font-size: 14px; }
.name { font: 600 13px/1.55 var(--mono); }
.how { font-size: 12.5px; font-weight: 600; white-space: nowrap; }
.took { color: var(--soft); font-size: 12.5px; font-variant-numeric: tabular-nums; }
summary { cursor: pointer; list-style: none; }
summary::-webkit-details-marker { display: none; }
summary:hover { background: var(--faint); }
summary:focus-visible { outline-offset: -2px; }
summary .name::before {
  content: ""; display: inline-block; width: 0; height: 0; margin-right: 8px;
  border: 4px solid transparent; border-left: 6px solid var(--soft); border-right: 0;
}
details[open] > summary .name::before { transform: rotate(90deg); }
.io { margin: 2px 16px 10px 104px; border-left: 2px solid var(--rule); padding-left: 12px; }
.io dt { color: var(--soft); font: 12px/1.6 var(--sans); margin-top: 4px; }
.io dd { margin: 0; }
.note { padding: 10px 16px; }
* + .note { border-top: 1px solid var(--rule); }
.head + .note { border-top: 0; }
footer { padding-top: 18px; padding-bottom: 32px; }
@media (max-width: 700px) {
  header, main, footer { padding-left: 12px; padding-right: 12px; }
  header { padding-top: 18px; }
  .row {
    grid-template-columns: 62px minmax(0, 1fr); gap: 2px 10px; padding: 6px 12px;
    grid-template-areas: "time what" ". track";
  }
  .axis { grid-template-areas: "time track"; }
  .head, .text { padding-left: 12px; padding-right: 12px; }
  .source li { --gutter: 44px; padding-right: 12px; }
  .source .n { padding-right: 10px; }
  .track { padding-top: 0; }
  .track svg { height: 8px; }
  .io { margin-left: 24px; margin-right: 12px; }
}
@media (prefers-contrast: more) { :root { --soft: var(--ink); --rule: currentColor; } }
@media print { .long { max-height: none; } fieldset { display: none; } }
"""
