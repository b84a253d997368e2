export { DoorbusterOrder, DoorbusterReport } from './entities.js';
export { METHOD_CODE } from './methods.js';
export type { DoorbusterOptions } from './options.js';
export { DoorbusterPlugin } from './plugin.js';
