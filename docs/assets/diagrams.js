// Diagrams as the theme expects them, whatever the default look of mermaid is, and narrow enough
// for a phone: names and messages are wrapped instead of made smaller.
const initialize = mermaid.initialize.bind(mermaid);
const isWide = window.innerWidth >= 700;
mermaid.initialize = (config) =>
  initialize({
    ...config,
    theme: "default",
    look: "classic",
    // The theme colors lines, and forgets the heads of arrows.
    themeCSS: `${config.themeCSS} defs marker path { fill: var(--md-mermaid-edge-color); stroke: var(--md-mermaid-edge-color) }`,
    flowchart: { ...config.flowchart, wrappingWidth: 160, nodeSpacing: 24, rankSpacing: 32 },
    sequence: {
      ...config.sequence,
      wrap: true,
      width: isWide ? 150 : 110,
      actorMargin: isWide ? 60 : 12,
      messageMargin: 28,
      noteMargin: 8,
      diagramMarginX: 8,
    },
  });
